"""Taking over saved arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.models.arrays import Array


def adopt(own: Mapping[str, Array], saved: Mapping[str, Array]) -> None:
    """Copy each saved array over the own one of the same name; all are checked before the first is touched."""
    missing = sorted(set(own) - set(saved))
    if missing:
        raise KeyError(f"the saved state lacks {', '.join(missing)}")
    for name, array in own.items():
        if saved[name].shape != array.shape or saved[name].dtype != array.dtype:
            raise ValueError(
                f"saved {name} is {saved[name].dtype} {saved[name].shape}, expected {array.dtype} {array.shape}"
            )
    for name, array in own.items():
        array[...] = saved[name]

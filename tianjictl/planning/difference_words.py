"""The difference between a living run and a plan, as people read it: each thing once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tianjictl.planning.plan_difference import Way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tianjictl.planning.plan_difference import PlanDifference, Setting

#: Sizes that follow from the others and that nobody sets.
_FOLLOWING = ("fragments_per_batch", "ring_slots", "batch_slots")


def lines(found: PlanDifference) -> list[str]:
    """`+` starts or joins, `~` stays but changes, `-` leaves, `=` sums up.

    A new training starts all its components: which of them the run has too is then of no interest.
    """
    settings = [f"~ {text}" for text in _settings(found)]
    if found.way is Way.LAUNCH:
        return settings
    told = [f"+ host {name}" for name in found.hosts_added]
    told += [f"+ {name}" for name in found.starts]
    told += [f"~ {move}" for move in found.moves]
    told += [f"- {name}" for name in found.leaves]
    told += [f"- host {name}" for name in found.hosts_left]
    return [*told, *settings, f"= {found.stays} component{'' if found.stays == 1 else 's'} stay as they are"]


def counted(found: PlanDifference) -> str:
    """As one reads it in a note: `+3 ~1 -0 components, 2 keys of the job`."""
    sizes, keys = len(_told_sizes(found)), len(found.job)
    parts = [f"+{len(found.starts)} ~{len(found.moves)} -{len(found.leaves)} components"]
    parts += [f"{sizes} size{'s' * (sizes > 1)}"] if sizes else []
    parts += [f"{keys} key{'s' * (keys > 1)} of the job"] if keys else []
    return ", ".join(parts)


def _settings(found: PlanDifference) -> Iterator[str]:
    sizes = {setting.key: setting for setting in found.sizes}
    for setting in found.job:
        size = sizes.get(_last(setting.key))
        yield _words(setting) + ("" if size is None else _in_effect(setting, size))
    for setting in _told_sizes(found):
        yield _words(setting) + _kept(setting, found.way)


def _told_sizes(found: PlanDifference) -> list[Setting]:
    """Those that no line on a key of the job tells already."""
    of_keys = {_last(setting.key) for setting in found.job}
    return [setting for setting in found.sizes if setting.key not in {*of_keys, *_FOLLOWING}]


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _words(setting: Setting) -> str:
    return f"{setting.key} {_shown(setting.before)} → {_shown(setting.after)}"


def _in_effect(key: Setting, size: Setting) -> str:
    """What `auto` comes to, where the job says no number."""
    if (key.before, key.after) == (size.before, size.after):
        return ""
    return f"  (in effect {_shown(size.before)} → {_shown(size.after)})"


def _kept(setting: Setting, way: Way) -> str:
    """A note where the way that leads there leaves the setting as it is."""
    if way is Way.SCALE:
        return f"  (a living run keeps {_shown(setting.before)}; only stop and resume would change it)"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "not given" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"

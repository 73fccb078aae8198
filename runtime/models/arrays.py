"""Names for the array types that the learning code passes around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
Columns: TypeAlias = Mapping[str, Array]


class ArraySpec(NamedTuple):
    """Type and shape of an array that somebody else allocates."""

    dtype: str
    shape: tuple[int, ...]

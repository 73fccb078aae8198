"""The stats block: one page group per component, in which it beats its heart and counts; read without a message.

One writer (the component, over all its attempts), any readers (the agent). Every value is one aligned 8-byte word, so
no value is ever torn, but a snapshot is not one instant. A new attempt attaches to the same block and its counters go
on. All words are 0 until set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.memory.fence import fence
from runtime.memory.segment import WORD, Segment

BLOCK_BYTES = 16384

#: What the process says about itself. `phase` is the position in `runtime.contract.states.PHASES`.
WORDS = ("beat", "phase", "pid", "attempt")

#: Whole numbers that only grow, except `version` and `checkpoint_done`, which are set.
COUNTERS = (
    "env_steps",
    "episodes",
    "fragments",
    "samples_produced",
    "batches",
    "updates",
    "version",
    "samples_trained",
    "dropped_stale",
    "dropped_other",
    "checkpoint_done",
    "rollbacks",
)

#: Newest values; `_s` is seconds, `_share` and `_ratio` are 0 … 1.
GAUGES = (
    "t_sp_s",
    "t_rv_s",
    "busy_share",
    "loss",
    "policy_loss",
    "value_loss",
    "entropy",
    "kl",
    "clip_share",
    "grad_norm",
    "q_mean",
    "epsilon",
    "learning_rate",
    "replay_fill",
    "staleness_ratio",
    "reward_eval",
    "reward_eval_version",
    "learner_scale",
)

LAG_BINS = 64  #: the writer decides what each bin means
EPISODE_DEPTH = 1024  #: how many finished episodes the block remembers

_INTEGERS = {name: index for index, name in enumerate((*WORDS, *COUNTERS))}
_FLOATS = {name: index for index, name in enumerate(GAUGES)}
_BEAT, _PHASE, _PID, _ATTEMPT = (_INTEGERS[name] for name in WORDS)
_ENDED, _CLAIMED = range(2)  # cursors of the episode ring: recorded, and about to be recorded
_EPISODES, _CHECKPOINT_DONE = _INTEGERS["episodes"], _INTEGERS["checkpoint_done"]

_FLOATS_AT = 1024  # byte offsets within the block, with room for more names
_LAG_AT = 2048
_EPISODE_CURSOR_AT = 4096
_EPISODES_AT = 8192
_EPISODE = np.dtype([("ret", "f4"), ("length", "i4")])  # 8 bytes, so that 1024 of them fit
assert _EPISODES_AT + EPISODE_DEPTH * _EPISODE.itemsize <= BLOCK_BYTES


class Counters:
    """`counter[name]`, readable and writable; KeyError for a name that is not in COUNTERS or WORDS."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview[int]) -> None:
        self._words = words

    def __getitem__(self, name: str) -> int:
        return self._words[_INTEGERS[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._words[_INTEGERS[name]] = value


class Gauges:
    """`gauge[name]`, readable and writable; KeyError for a name that is not in GAUGES."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview[float]) -> None:
        self._words = words

    def __getitem__(self, name: str) -> float:
        return self._words[_FLOATS[name]]

    def __setitem__(self, name: str, value: float) -> None:
        self._words[_FLOATS[name]] = value


class StatsBlock:
    """Block number `index` of a segment made with `StatsBlock.nbytes(count)` zeroed bytes."""

    def __init__(self, segment: Segment, index: int = 0) -> None:
        start = index * BLOCK_BYTES
        if index < 0 or segment.nbytes < start + BLOCK_BYTES:
            raise ValueError(f"segment {segment.name!r} of {segment.nbytes} bytes has no stats block {index}")
        self._integers = segment.words(start, len(_INTEGERS))
        self._cursor = segment.words(start + _EPISODE_CURSOR_AT, 2)
        floats = segment.memory[start + _FLOATS_AT : start + _FLOATS_AT + len(_FLOATS) * WORD].cast("d")
        self._floats: memoryview[float] = floats
        self._episodes = np.frombuffer(segment.memory, _EPISODE, EPISODE_DEPTH, start + _EPISODES_AT)
        self.counter = Counters(self._integers)
        self.gauge = Gauges(self._floats)
        #: samples used, by version lag: int64 [64]. The writer adds to it in place.
        self.lag_histogram: np.ndarray = np.frombuffer(segment.memory, np.int64, LAG_BINS, start + _LAG_AT)

    @staticmethod
    def nbytes(count: int) -> int:
        """Bytes of a segment for `count` blocks."""
        return count * BLOCK_BYTES

    def beat(self) -> None:
        """Say "alive and moving" (≈ 0.1 µs)."""
        self._integers[_BEAT] += 1

    @property
    def beats(self) -> int:
        """How often `beat` was called, over all attempts."""
        return self._integers[_BEAT]

    @property
    def phase(self) -> int:
        """Position in `PHASES`."""
        return self._integers[_PHASE]

    @phase.setter
    def phase(self, code: int) -> None:
        self._integers[_PHASE] = code

    @property
    def pid(self) -> int:
        """Process of the present attempt, 0 before the first."""
        return self._integers[_PID]

    @pid.setter
    def pid(self, pid: int) -> None:
        self._integers[_PID] = pid

    @property
    def attempt(self) -> int:
        """Which life of the component this is."""
        return self._integers[_ATTEMPT]

    @attempt.setter
    def attempt(self, attempt: int) -> None:
        self._integers[_ATTEMPT] = attempt

    @property
    def checkpoint_done(self) -> int:
        """The newest checkpoint request whose shard is written."""
        return self._integers[_CHECKPOINT_DONE]

    @checkpoint_done.setter
    def checkpoint_done(self, request: int) -> None:
        fence()  # the shard was handed to the kernel before the word says so
        self._integers[_CHECKPOINT_DONE] = request

    def add(self, name: str, amount: int) -> None:
        """Raise a counter (≈ 0.15 µs)."""
        self._integers[_INTEGERS[name]] += amount

    def set(self, name: str, value: float) -> None:
        """Set a gauge, or a counter to a whole number."""
        index = _FLOATS.get(name)
        if index is not None:
            self._floats[index] = value
        else:
            self._integers[_INTEGERS[name]] = int(value)

    def get(self, name: str) -> int | float:
        """A word, counter or gauge by name. Raises KeyError for an unknown one."""
        index = _FLOATS.get(name)
        return self._floats[index] if index is not None else self._integers[_INTEGERS[name]]

    def add_episode(self, ret: float, length: int) -> None:
        """Record a finished episode (undiscounted return, steps) and count it in `episodes`."""
        self._record(1, self._cursor[_ENDED] % EPISODE_DEPTH, (ret, length))

    def add_episodes(self, returns: Sequence[float], lengths: Sequence[int]) -> None:
        """Record finished episodes, oldest first, at the price of a few single ones; the newest 1024 are remembered."""
        number, count = len(returns), self._cursor[_ENDED]
        first = count + max(0, number - EPISODE_DEPTH)
        rows = np.empty(count + number - first, _EPISODE)
        rows["ret"], rows["length"] = returns[first - count :], lengths[first - count :]
        self._record(number, np.arange(first, count + number) % EPISODE_DEPTH, rows)

    def _record(self, number: int, places: int | np.ndarray, rows: tuple[float, int] | np.ndarray) -> None:
        end = self._cursor[_ENDED] + number
        self._cursor[_CLAIMED] = end
        fence()  # the claim is there before the first old episode is overwritten
        self._episodes[places] = rows
        fence()  # the episodes are there when the cursor says so
        self._cursor[_ENDED] = end
        self._integers[_EPISODES] += number

    def episodes_since(self, count: int) -> tuple[int, list[tuple[float, int]]]:
        """Episodes finished since a cursor of `count` (0 at first), oldest first, and the new cursor.

        At most the newest 1024; those that the writer was overwriting meanwhile are left out.
        """
        end = self._cursor[_ENDED]
        fence()  # after the load of the cursor: the episodes it counts are there
        first = max(count, end - EPISODE_DEPTH)
        taken = [self._episodes[number % EPISODE_DEPTH].item() for number in range(first, end)]
        fence()  # the reads are over before the look at the claim
        whole_from = self._cursor[_CLAIMED] - EPISODE_DEPTH
        return end, taken[max(0, whole_from - first) :]

    def snapshot(self) -> dict[str, int | float]:
        """Every word, counter and gauge by name, as plain numbers."""
        integers: dict[str, int | float] = dict(zip(_INTEGERS, self._integers, strict=True))
        integers.update(zip(_FLOATS, self._floats, strict=True))
        return integers

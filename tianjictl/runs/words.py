"""Numbers and foreign text in the words of people: shared by everything that shows a run, whatever draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.contract.view import Checkpoints

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
_ASCII = str.maketrans(
    {
        "\N{RIGHTWARDS ARROW}": "->",
        "\N{MIDDLE DOT}": "-",
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{MULTIPLICATION SIGN}": "x",
        "\N{LESS-THAN OR EQUAL TO}": "<=",
        "\N{GREATER-THAN OR EQUAL TO}": ">=",
        "\N{EN DASH}": "-",
        "\N{CHECK MARK}": "ok",
        "\N{BALLOT X}": "x",
    }
)


def visible(text: str) -> str:
    """`text` without the power to steer a terminal: control characters but tab and newline come out as escapes."""
    return text.translate(_CONTROL)


def in_ascii(text: str) -> str:
    """`text` where only ASCII can be shown: what has a spelling is spelt, the rest comes out as escapes."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def cores(numbers: tuple[int, ...]) -> str:
    """CPU numbers as ranges: `0-3,8`."""
    parts: list[list[int]] = []
    for cpu in sorted(numbers):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts) or "-"


def number(value: float | None) -> str:
    """A return for people; `-` where there is none."""
    return "-" if value is None else f"{value:.1f}"


def rate(value: float | None) -> str:
    """A rate for people, three digits where it is small."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(value: int | None) -> str:
    """Bytes for people."""
    if value is None:
        return "-"
    return f"{value / 2**20:,.0f} MiB" if value >= 1 << 20 else f"{value / 2**10:,.0f} KiB"


def duration(value: float) -> str:
    """Seconds for people: `8.2 s`, `3 min 05 s`, `2 h 10 min`."""
    if value < 60:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60):02} s"
    if value < 172_800:
        return f"{int(value // 3600)} h {int(value % 3600 // 60):02} min"
    return f"{int(value // 86_400)} days"


def age(value: float) -> str:
    """How long ago."""
    return f"{duration(value)} ago"


def checkpoint_failures(found: Checkpoints) -> str:
    """How many checkpoints have failed since the last good one, why, and what helps; empty where none has."""
    if not found.failed_in_a_row:
        return ""
    times = f"{found.failed_in_a_row} failed in a row" if found.failed_in_a_row > 1 else "the last one failed"
    return f"{times}: {found.problem}" + (f" ({found.hint})" if found.hint else "")


def milliseconds(value: float | None) -> str:
    """A short time, given in seconds."""
    return "-" if value is None else f"{value * 1e3:.3g} ms"

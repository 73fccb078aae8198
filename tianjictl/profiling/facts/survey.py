"""What is asked of a host by commands, as one shell script for this machine and for every other. Pure: text in and out.

An answer is in pieces: a mark that nobody can guess, what kind of piece, its name; then its text to the next mark. A
program that is not there, or takes too long, leaves its piece empty; a missing fact is no error.
"""

from __future__ import annotations

from typing import NamedTuple

from tianjictl.profiling.facts import fabric, gpus
from tianjictl.profiling.facts.clock import Readings
from tianjictl.profiling.facts.surroundings import VARIABLES


class Piece(NamedTuple):
    """One piece of an answer."""

    kind: str
    name: str
    text: str


class Answers(NamedTuple):
    """Texts by question, and the four readings of two clocks."""

    said: dict[str, str]
    readings: Readings | None


#: $tj_mark and $tj_folder (where runs will lie) are set by whoever embeds the script. A program that waits for a file
#: server which is gone hears no milder signal than KILL.
PRELUDE = """
tj_say() { printf '\\n%s %s %s\\n' "$tj_mark" "$1" "$2"; }
tj_soon() { if command -v timeout >/dev/null; then timeout -s KILL "$@"; else shift; "$@"; fi; }
tj_home() { case "$1" in "~") printf %s "$HOME" ;; "~/"*) printf %s "$HOME/${1#??}" ;; *) printf %s "$1" ;; esac; }
tj_space() {
tj_place=$(tj_home "$2")
while [ ! -d "$tj_place" ] && [ "${tj_place%/*}" != "$tj_place" ]; do tj_place=${tj_place%/*}; done
tj_say said "$1"
printf '%s\\n' "${tj_place:-/}"
tj_soon 5 df -PkT "${tj_place:-/}" 2>/dev/null
}
"""
#: Costs milliseconds.
QUICK = f"""
tj_space shm /dev/shm
tj_space tmp "${{TMPDIR:-/tmp}}"
tj_space disk "$tj_folder"
tj_say said inodes
tj_soon 5 df -Pi "${{tj_place:-/}}" 2>/dev/null
tj_say said writable
[ -w "${{tj_place:-/}}" ] && echo yes || echo no
tj_say said environment
env | grep -E '^{VARIABLES}='
tj_say said verbs
for tj_file in /dev/infiniband/uverbs*; do [ -r "$tj_file" ] && [ -w "$tj_file" ] && echo "$tj_file"; done
"""
#: Wakes devices up and may ask a name server: up to seconds.
THOROUGH = f"""
tj_say said gpus
command -v nvidia-smi >/dev/null && tj_soon 10 {gpus.QUERY} 2>&1 && {{ tj_say said mig; tj_soon 5 {gpus.LISTING}; }}
tj_say said devinfo
command -v ibv_devinfo >/dev/null && tj_soon 5 ibv_devinfo 2>/dev/null
tj_say said providers
command -v fi_info >/dev/null && tj_soon 5 {fabric.LISTING} 2>/dev/null
tj_say said mpiexec
command -v mpiexec && tj_soon 5 mpiexec --version 2>&1
tj_say said name
read -r tj_name </proc/sys/kernel/hostname && tj_soon 3 getent ahosts "$tj_name" 2>/dev/null
"""
#: First and last thing: between them the host is at work, and not on its way.
FIRST = "tj_say said clock\ndate +%s.%N\n"
LAST = "tj_say said clock-again\ndate +%s.%N\n"


def script(*, devices: bool) -> str:
    """All questions; $1 is the mark, $2 where runs will lie."""
    parts = ("tj_mark=$1 tj_folder=$2\n", PRELUDE, FIRST, QUICK, THOROUGH if devices else "", LAST)
    return "".join(parts) + "exit 0\n"


def pieces(answer: str, mark: str) -> list[Piece]:
    """The pieces of an answer, in order."""
    found = []
    for piece in answer.split(f"\n{mark} ")[1:]:
        head, _, text = piece.partition("\n")
        kind, _, name = head.partition(" ")
        found.append(Piece(kind, name, text))
    return found


def answers(found: list[Piece], *, sent: float, received: float) -> Answers:
    """What was said, without what is empty; `sent` and `received` by the operator's clock, in seconds since 1970."""
    said = {piece.name: piece.text for piece in found if piece.kind == "said" and piece.text.strip()}
    first, last = said.pop("clock", None), said.pop("clock-again", None)
    if first is None or last is None:
        return Answers(said, None)
    return Answers(said, Readings(sent=sent, first=first.strip(), last=last.strip(), received=received))

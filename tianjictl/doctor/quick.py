"""The quick part: what a launch judges of hosts from the facts that it has looked at anyway, without asking more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tianjictl.doctor.finding import Severity
from tianjictl.doctor.report import alike, judge
from tianjictl.doctor.situation import Examined, Situation
from tianjictl.errors import DoctorFailed
from tianjictl.errors import Finding as Problem
from tianjictl.hosts.types import this_machine
from tianjictl.profiling.facts.network import NetworkFacts
from tianjictl.profiling.remote_facts import NodeFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tianjictl.doctor.finding import Finding
    from tianjictl.profiling.facts.host import HostFacts

#: What a launch refuses itself, with more to say about it.
_ELSEWHERE = frozenset({"ssh.reach", "host.duplicate", "network.address", "state.folder"})
#: What a run gets along with: it uses no common clock.
_NEVER_STOPS = frozenset({"clock.offset"})
#: What somebody who looks at a host should know, and who launches need not be told each time.
_UNSAID = frozenset({"shell.prints", "versions.agree"})


def examining(inventory: str | None, say: Callable[[str], None]) -> Callable[[Sequence[NodeFacts]], None]:
    """For hosts that were just looked at, the head first: says what is amiss; DoctorFailed where a run would break."""
    return lambda nodes: _heed(Situation(tuple(Examined(node.host, node=node) for node in nodes), inventory), say)


def examining_here(say: Callable[[str], None]) -> Callable[[HostFacts], None]:
    """The same for this machine alone."""
    (host,) = this_machine().hosts
    return lambda facts: examining(None, say)([NodeFacts(host, facts, "this machine", NetworkFacts())])


def _heed(situation: Situation, say: Callable[[str], None]) -> None:
    rows = [row for row in judge(situation, quick=True).findings if row.check not in _ELSEWHERE]
    fails = [row for row in rows if row.severity is Severity.FAIL and row.check not in _NEVER_STOPS]
    if fails:
        raise DoctorFailed.listing([Problem(f"{_told(row)}: {row.why}", row.mend) for row in fails])
    found = [row for row in rows if row.severity in (Severity.WARN, Severity.FAIL) and row.check not in _UNSAID]
    for group in alike(found):
        hosts = ", ".join(row.host for row in group)
        say(f"warning: {hosts}: {group[0].check}: {group[0].evidence}")
    if found:
        file = f" -i {shlex.quote(situation.inventory)}" if situation.inventory else ""
        checks = ",".join(dict.fromkeys(row.check for row in found))
        say(f"hint: tianjictl doctor{file} --only {checks} says what mends it")


def _told(row: Finding) -> str:
    return f"{row.host}: {row.check}: {row.evidence}"

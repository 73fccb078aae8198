"""What holds a plan back, in one sentence that names the true cause. Pure.

Which side limits is one thing, why there is no more of it another: actors may limit because a simulator keeps them
waiting, because memory holds no more of them, or because no more were asked for. So each cause that could be taken away
is taken away, and what gains most is named. Where nothing gains, the side itself is the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.planning.cause import Cause
from tianjictl.planning.inherent import inherent_cause
from tianjictl.planning.removable import BOUNDS_OF_P, held_buffer, removable, staleness

if TYPE_CHECKING:
    from tianjictl.planning.cause import Named
    from tianjictl.planning.relaxing import Case

_WORTH_NAMING = 0.05  #: of what the plan reaches


def causes(case: Case) -> tuple[Named, ...]:
    """What binds, the one to name first; never empty."""
    inherent = inherent_cause(case)
    found = [named for named in removable(case) if named.gain >= _WORTH_NAMING]
    found.sort(key=lambda named: -named.gain)
    told = {named.cause for named in found}
    measured = any(opened.key in BOUNDS_OF_P for opened in case.problem.opened)
    if inherent.cause is Cause.LEARNER and not measured and (held := staleness(case)) is not None:
        found.append(held)
    if inherent.cause not in told:
        found.append(inherent)
    if Cause.MEMORY not in told and (smaller := held_buffer(case)) is not None:
        found.append(smaller)
    return tuple(found)

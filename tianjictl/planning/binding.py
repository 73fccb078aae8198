"""What holds a plan back, in one sentence that names the true cause. Pure.

Which side limits is one thing, why there is no more of it another: actors may limit because a simulator keeps them
waiting, because memory holds no more of them, or because no more were asked for. So each cause that could be taken away
is taken away, and what gains most is named. Where nothing gains, the side itself is the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tianjictl.planning.cause import Cause
from tianjictl.planning.inherent import inherent_cause
from tianjictl.planning.removable import removable, staleness

if TYPE_CHECKING:
    from tianjictl.planning.cause import Named
    from tianjictl.planning.relaxing import Case

_WORTH_NAMING = 0.05  #: of what the plan reaches


def causes(case: Case) -> tuple[Named, ...]:
    """What binds, the one to name first; never empty."""
    inherent = inherent_cause(case)
    found = [named for named in removable(case) if named.gain >= _WORTH_NAMING]
    found.sort(key=lambda named: -named.gain)
    if inherent.cause is Cause.LEARNER and (held := staleness(case)) is not None:
        found.append(held)
    told = {named.cause for named in found}
    return tuple(found) if inherent.cause in told else (*found, inherent)

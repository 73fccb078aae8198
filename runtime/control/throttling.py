"""For how long quotas have stopped the control group that this process is in."""

from __future__ import annotations

from pathlib import Path

from runtime.contract.cgroup_folders import hierarchies

_PROC = Path("/proc/self")


class Throttling:
    """The counters of this process's group and of those above it. What it starts is in the same group."""

    def __init__(self, proc: Path = _PROC) -> None:
        """`proc`: where the kernel tells of this process's groups."""
        try:
            found = hierarchies((proc / "cgroup").read_text(), (proc / "mountinfo").read_text())
        except OSError:
            found = []
        groups = (each.folders for each in found if not each.controllers or "cpu" in each.controllers)
        stats = [Path(folder) / "cpu.stat" for folders in groups for folder in folders]
        self._stats = [stat for stat in stats if stat.exists()]

    def stopped_s(self) -> float:
        """Seconds so far for which work that was ready had to wait for a quota's next period, added over CPUs.

        Of several groups with quotas, one in another, the one that has stopped the most; 0 where none has.
        """
        return max(map(_stopped_s, self._stats), default=0.0)


def _stopped_s(stat: Path) -> float:
    try:
        counted = dict(line.split() for line in stat.read_text().splitlines())
        if "throttled_usec" in counted:
            return int(counted["throttled_usec"]) / 1e6
        return int(counted.get("throttled_time", 0)) / 1e9
    except (OSError, ValueError):
        return 0.0

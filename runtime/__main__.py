"""`python -m runtime WHAT …`: everything that runs on a node is started through here. Imports only what it runs."""

from __future__ import annotations

import importlib
import sys

#: What can be started, and the module whose `main(argv) -> exit code` does it.
ENTRIES = {
    "agent": "runtime.control.agent_main",
    "coordinator": "runtime.control.coordinator_main",
    "forkserver": "runtime.control.forkserver",
    "in-process": "runtime.in_process",
    "probe-env": "runtime.envs.probe",
    "measure": "runtime.measure.command",
    "measure-link": "runtime.measure.link",
    "selfcheck": "runtime.selfcheck.command",
    "reach": "runtime.measure.reach",
    "eval": "runtime.components.evaluation",
    "checkpoints": "runtime.checkpoint.command",
    "tracker": "runtime.metrics.tracker",
    "ask": "runtime.control.relay",
}


def main(argv: list[str]) -> int:
    """Run one entry; 2 for an unknown one."""
    if not argv or argv[0] not in ENTRIES:
        sys.stderr.write(f"usage: python -m runtime {{{','.join(ENTRIES)}}} …\n")
        return 2
    module = importlib.import_module(ENTRIES[argv[0]])
    code: int = module.main(argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

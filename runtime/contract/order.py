"""What an agent is told when it is started, and what it answers: one JSON line each, or one file each."""

from __future__ import annotations

from runtime.contract.model import Document, View

#: Variables of an agent's environment: another MPI library than the one beside mpi4py (its file, or its kind such as
#: "mpich"), and the launcher of a library that needs its own. `~/` is the home of the user on that node.
MPI_ABI_VARIABLE = "TIANJI_MPI_ABI"
MPIEXEC_VARIABLE = "TIANJI_MPIEXEC"


class AgentOrder(Document):
    """What to be. The head reads its plan from the run folder; every other agent is sent it by the coordinator."""

    run: str  #: absolute folder of the run on this node; its last part is the run id
    node: str = "localhost"
    head: bool = True
    attempt: int = 1  #: of the run
    resume_from: str | None = None  #: absolute folder of a checkpoint on this node
    coordinator: str | None = None  #: where the coordinator listens, `tcp://10.0.0.1:40001`; none on the head
    network: str | None = None  #: CIDR of the network to use; none: this machine only


class AgentAnswer(View):
    """Ready, or why not. `endpoint`: where a head's coordinator listens for other nodes, none where there are none."""

    ready: bool = False
    endpoint: str | None = None
    error: str | None = None
    hint: str | None = None

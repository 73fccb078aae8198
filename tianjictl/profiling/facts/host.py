"""Everything the planner and the operator want to know of one host, understood from its raw facts."""

from __future__ import annotations

from pydantic import Field, model_validator

from runtime.contract.model import Document
from tianjictl.profiling.facts import cgroups, cpus, gpus, memory, nics
from tianjictl.profiling.facts.clock import ClockFacts
from tianjictl.profiling.facts.cpus import CpuFacts
from tianjictl.profiling.facts.fabric import FabricFacts
from tianjictl.profiling.facts.gpus import GpuFacts
from tianjictl.profiling.facts.limits import LimitFacts
from tianjictl.profiling.facts.memory import MemoryFacts, SwapFacts
from tianjictl.profiling.facts.mpi import MpiFacts
from tianjictl.profiling.facts.names import NameFacts
from tianjictl.profiling.facts.nics import NicFacts
from tianjictl.profiling.facts.numa import NumaNode
from tianjictl.profiling.facts.raw import GPU_COMMAND, RawFacts
from tianjictl.profiling.facts.rdma import RdmaPort
from tianjictl.profiling.facts.space import SpaceFacts


class HostFacts(Document):
    """One host, understood."""

    name: str
    cpu: CpuFacts
    memory: MemoryFacts
    numa: tuple[NumaNode, ...] = ()
    swap: SwapFacts | None = None
    nics: tuple[NicFacts, ...] = ()
    rdma: tuple[RdmaPort, ...] = ()
    fabric: FabricFacts = FabricFacts()
    gpus: tuple[GpuFacts, ...] = ()
    gpu_problem: str | None = None  #: what nvidia-smi says where it is there and lists none
    disk: SpaceFacts | None = None  #: where runs will lie
    shm: SpaceFacts | None = None  #: /dev/shm
    tmp: SpaceFacts | None = None  #: $TMPDIR, else /tmp
    boot_id: str = ""
    machine_id: str = ""
    names: NameFacts = NameFacts()
    kernel: str = ""
    container: str | None = None
    virtual: str | None = None
    python: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    mpi: MpiFacts = MpiFacts()
    limits: LimitFacts = LimitFacts()
    clock: ClockFacts | None = None  #: None where the host told no time
    load_1min: float | None = None  #: processes that run or wait for a disk
    environment: dict[str, str] = Field(default_factory=dict)  #: of a run's processes; only variables that matter
    login_prints: str = ""  #: what the login shell wrote unasked before it ran our script, shortened

    @model_validator(mode="before")
    @classmethod
    def _without_old_names(cls, data: object) -> object:
        """Profiles that were written before `limits` was there still load; their two limits are not kept."""
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if key not in ("open_files", "processes")}
        return data

    @property
    def numa_distances(self) -> tuple[tuple[int, ...], ...]:
        """A row for each NUMA node, by number; empty where the kernel does not say."""
        return tuple(node.distances for node in self.numa)

    @property
    def governors(self) -> tuple[str, ...]:
        """The frequency governors of the CPUs that may be used, each once; empty where there are none."""
        return tuple(sorted({core.governor for core in self.cpu.allowed if core.governor}))


def understand(raw: RawFacts) -> HostFacts:
    """Parse one host's raw facts; what is missing gets a stated, cautious default."""
    files = raw.files
    limits = cgroups.parse(files)
    return HostFacts(
        name=raw.host,
        cpu=cpus.parse(files, raw.affinity, limits),
        memory=memory.parse(files, limits.memory),
        nics=nics.parse(files),
        gpus=gpus.parse(raw.commands.get(" ".join(GPU_COMMAND), "")),
        disk=None if raw.disk is None else SpaceFacts(**raw.disk.model_dump()),
        boot_id=files.get("/proc/sys/kernel/random/boot_id", "").strip(),
        machine_id=files.get("/etc/machine-id", "").strip(),
        kernel=files.get("/proc/sys/kernel/osrelease", "").strip(),
        python=raw.python,
        packages=raw.packages,
    )

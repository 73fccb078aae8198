"""Everything the planner and the operator want to know of one host, understood from its raw facts."""

from __future__ import annotations

from pydantic import Field, model_validator

from runtime.contract.model import Document
from tianjictl.profiling.facts import (
    cgroups,
    clock,
    cpus,
    fabric,
    gpus,
    limits,
    memory,
    mpi,
    names,
    nics,
    numa,
    rdma,
    software,
    space,
    surroundings,
)
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
from tianjictl.profiling.facts.raw import RawFacts
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
    old_pythons: tuple[str, ...] = ()  #: interpreters that were passed over, each with its version
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
    files, said = raw.files, raw.said
    groups = cgroups.parse(files)
    mounts = files.get("/proc/self/mountinfo", "")
    nodes = numa.parse(files)
    ports = rdma.parse(files, said.get("devinfo", ""))
    environment = surroundings.parse_environment(said.get("environment", ""))
    return HostFacts(
        name=raw.host,
        cpu=cpus.parse(files, raw.affinity, groups, nodes),
        memory=memory.parse(files, groups.memory),
        numa=nodes,
        swap=memory.parse_swap(files),
        nics=nics.parse(files),
        rdma=ports,
        fabric=fabric.choose(
            ports,
            fabric.parse_providers(said.get("providers", "")),
            openable="verbs" in said,
            forced=environment.get("FI_PROVIDER", ""),
        ),
        gpus=gpus.parse(said.get("gpus", ""), said.get("mig", "")),
        gpu_problem=gpus.problem(said.get("gpus", "")),
        disk=space.parse(said.get("disk", ""), mounts, said.get("inodes", ""), said.get("writable", "")),
        shm=space.parse(said.get("shm", ""), mounts),
        tmp=space.parse(said.get("tmp", ""), mounts),
        boot_id=files.get("/proc/sys/kernel/random/boot_id", "").strip(),
        machine_id=files.get("/etc/machine-id", "").strip(),
        names=names.parse(files, said.get("name", "")),
        kernel=files.get("/proc/sys/kernel/osrelease", "").strip(),
        container=surroundings.container(files, environment),
        virtual=surroundings.virtual(files),
        python=raw.python,
        old_pythons=software.parse_old(said.get("old-pythons", "")),
        packages=raw.packages,
        mpi=mpi.parse(raw.packages, said.get("mpiexec", "")),
        limits=limits.parse(files, groups.processes),
        clock=clock.parse(raw.readings),
        load_1min=cpus.parse_load(files.get("/proc/loadavg", "")),
        environment=environment,
        login_prints=raw.login_prints,
    )

"""What surrounds a run on a host: container, virtual machine, and variables that change how fast it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

FILES = (
    "/proc/1/cgroup",
    "/.dockerenv",
    "/run/.containerenv",
    "/run/systemd/container",
    "/sys/class/dmi/id/product_name",
)
#: Variables worth knowing, for `grep -E` and for Python; nobody's secrets are among them.
VARIABLES = (
    "(OMP_[A-Z_]+|GOMP_[A-Z_]+|KMP_[A-Z_]+|OPENBLAS_NUM_THREADS|MKL_NUM_THREADS|NUMEXPR_NUM_THREADS"
    "|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME|TMPDIR|CUDA_VISIBLE_DEVICES"
    "|FI_PROVIDER|FI_TCP_IFACE|UCX_TLS|UCX_NET_DEVICES|MPIR_CVAR_CH4_NETMOD"
    "|SLURM_JOB_ID|SLURM_CPUS_[A-Z_]+|SLURM_CPU_[A-Z_]+|SLURM_JOB_CPUS_PER_NODE|SLURM_MEM_PER_[A-Z]+"
    "|KUBERNETES_SERVICE_HOST|APPTAINER_NAME|SINGULARITY_NAME)"
)
_KINDS = (
    ("kubernetes", re.compile("kubepods")),
    ("docker", re.compile(r"docker[-/]")),
    ("podman", re.compile("libpod")),
    ("lxc", re.compile(r"/lxc[./]")),
    ("containerd", re.compile("containerd")),
)


def parse_environment(listing: str) -> dict[str, str]:
    """Variables out of lines `NAME=value`, only those that are known here."""
    pairs = (line.partition("=") for line in listing.splitlines())
    return {name: value for name, sign, value in pairs if sign and re.fullmatch(VARIABLES, name)}


def container(files: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """The kind of container that this is in; None where nothing says so."""
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    if "APPTAINER_NAME" in environment or "SINGULARITY_NAME" in environment:
        return "apptainer"
    groups = files.get("/proc/1/cgroup", "")
    by_group = next((kind for kind, pattern in _KINDS if pattern.search(groups)), None)
    if by_group is not None:
        return by_group
    if "/.dockerenv" in files:
        return "docker"
    if "/run/.containerenv" in files:
        return "podman"
    return files.get("/run/systemd/container", "").strip() or None


def virtual(files: Mapping[str, str]) -> str | None:
    """The virtual machine's product name, or `hypervisor` where only the CPU tells of one; None on bare metal."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", files.get("/proc/cpuinfo", ""), re.MULTILINE):
        return None
    return files.get("/sys/class/dmi/id/product_name", "").strip() or "hypervisor"

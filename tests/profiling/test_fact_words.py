"""Facts in words: what a person reads of a machine, and that a machine which says nothing takes no lines."""

from __future__ import annotations

import pytest

from support.odd_machines import raw_of
from tianjictl.profiling.facts.host import understand
from tianjictl.profiling.facts.words import rows, size


def told(machine: str) -> dict[str, str]:
    return dict(rows(understand(raw_of(machine))))


@pytest.mark.parametrize(
    ("machine", "matter", "words"),
    [
        ("v2_quota_1.5", "CPUs", "1 usable (0), 1.5 CPUs' worth of time"),
        ("smt_off", "cores", "16 physical in 2 packages, SMT off"),
        ("arm_big_little", "cores", "8 physical in 1 package, 1800 and 2400 MHz at most, governor schedutil"),
        ("numa_node_without_cpus", "NUMA", "0: CPUs 0-7, 62.5 GiB; 1: CPUs none, 250 GiB; distances 10 and 24"),
        ("swap_in_use", "memory", "15.6 GiB, 500 MiB available, 2 GiB of 8 GiB swap in use"),
        ("tiny_shm", "space", "/dev/shm 64 MiB free (tmpfs); temporary 1 GiB free (/tmp, tmpfs)"),
        ("lustre_scratch", "space", "(/scratch/runs, lustre over the network, 300000000 inodes)"),
        ("nics_of_all_kinds", "network", "eno1 up, 25000 Mbit/s, MTU 9000, ice; eno2 down"),
        ("infiniband_active", "RDMA", "mlx5_0 port 1 ACTIVE InfiniBand 200 Gbit/s (ib0)"),
        ("infiniband_down", "MPI over", "tcp (no RDMA port is active"),
        ("a100_mig", "GPUs", "0 NVIDIA A100-SXM4-40GB 40960 MiB in parts 3g.20gb, 2g.10gb, 1c.1g.5gb; 1 NVIDIA"),
        ("nvidia_without_driver", "GPUs", "NVIDIA-SMI has failed"),
        ("memlock_64k", "limits", "locked memory 64 KiB, open files 1024, processes 127643"),
        ("memlock_unlimited", "limits", "locked memory unlimited, open files 131072, processes unlimited"),
        ("docker_pids_limit", "limits", "processes 100"),
        ("debian_127.0.1.1", "name", "cn07, which is 127.0.1.1"),
        ("name_unknown_to_itself", "name", "unknown to itself"),
        ("clock_3_min_off", "system", "clock -180,000 ms ± 50 ms"),
        ("old_python", "Python", "none that will do; passed over: python3 3.8.10"),
        ("open_mpi_4", "MPI", "MPICH 5.0.2, /usr/bin/mpiexec is Open MPI 4.1.4"),
        ("slurm_mask", "variables", "OMP_NUM_THREADS=6"),
    ],
)
def test_a_matter_is_told_in_a_line(machine: str, matter: str, words: str) -> None:
    assert words in told(machine)[matter]


def test_a_machine_that_says_nothing_takes_few_lines() -> None:
    assert list(told("nothing")) == ["CPUs", "cores", "memory", "MPI over"]


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1023, "0.999 KiB"), (65536, "64 KiB"), (1 << 40, "1 TiB"), (1 << 62, "4096 PiB")],
)
def test_sizes_are_told_with_three_digits(count: int, words: str) -> None:
    assert size(count) == words

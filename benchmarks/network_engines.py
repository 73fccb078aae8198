"""From which width on torch computes a network as fast as NumPy: forward and backward, one thread, by width and rows.

    python benchmarks/network_engines.py [--seconds 1]

Prints milliseconds per forward and backward for both engines and their ratio; `runtime/models/engine.py` follows it.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import statistics
import sys
import time
from typing import Literal

import numpy as np
import torch

from runtime.contract.algorithm import NetworkConfig
from runtime.models.engine import make_network
from runtime.models.spec import NetworkSpec

WIDTHS = (64, 256, 512, 1024)
ROWS = (256, 2048)
ROUNDS = 5


def milliseconds(engine: Literal["numpy", "torch"], width: int, rows: int, seconds: float) -> float:
    """Median over rounds of the time for one forward and backward."""
    spec = NetworkSpec("q", 8, 4, (width, width), "tanh")
    rng = np.random.default_rng(0)
    params = spec.initial(rng)
    network = make_network(NetworkConfig(engine=engine), spec, spec.towers[0], params, rows, np.zeros_like(params))
    x = rng.standard_normal((rows, 8)).astype(np.float32)
    delta = rng.standard_normal((rows, 4)).astype(np.float32)
    rounds = []
    for _ in range(ROUNDS + 1):
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds / ROUNDS:
            network.forward(x)
            network.backward(delta)
            count += 1
        rounds.append((time.perf_counter() - began) / count * 1e3)
    return statistics.median(rounds[1:])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="NumPy and torch as engines of a network")
    parser.add_argument("--seconds", type=float, default=1.0, help="per engine, width and number of rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.write("width  rows  numpy ms  torch ms  torch/numpy\n")
    for width in WIDTHS:
        for rows in ROWS:
            by_numpy = milliseconds("numpy", width, rows, options.seconds)
            by_torch = milliseconds("torch", width, rows, options.seconds)
            sys.stdout.write(f"{width:5} {rows:5} {by_numpy:9.3f} {by_torch:9.3f} {by_torch / by_numpy:12.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

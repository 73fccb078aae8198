"""The libraries that compute: threads as asked, and both engines alike."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from runtime.contract.algorithm import NetworkConfig
from runtime.models.engine import make_network
from runtime.models.spec import NetworkSpec
from runtime.selfcheck.finding import NotSeenError, Seen


def check_threads(threads: int) -> Seen:
    """Whether every BLAS and OpenMP that is loaded obeys; a component asks them in the same way when it starts."""
    with threadpool_limits(threads):
        pools = threadpool_info()
    if not pools:
        raise NotSeenError("no BLAS or OpenMP whose threads could be set is loaded: it may take as many as it likes")
    told = [f"{pool['user_api']} ({pool['internal_api']} {pool.get('version') or '?'})" for pool in pools]
    wrong = [
        f"{name}: {pool['num_threads']}" for name, pool in zip(told, pools, strict=True) if _differs(pool, threads)
    ]
    if wrong:
        return Seen(False, "a library does not obey when its threads are set", f"{threads} each", "; ".join(wrong))
    return Seen(True, f"{', '.join(told)}: {threads} thread{'s' if threads > 1 else ''} as asked")


def _differs(pool: dict[str, object], threads: int) -> bool:
    return pool["num_threads"] != threads


def check_engines(seed: int) -> Seen:
    """Outputs and gradients of one small network by NumPy and by torch (whose import takes seconds)."""
    rng = np.random.default_rng(seed)
    spec = NetworkSpec("q", 5, 3, (16, 12), "tanh")
    params = spec.initial(rng)
    x_NO = rng.standard_normal((8, 5)).astype(np.float32)
    delta_NA = np.asfortranarray(rng.standard_normal((8, 3)).astype(np.float32))
    results = []
    for config in (NetworkConfig(engine="numpy"), NetworkConfig(engine="torch")):
        grads = np.zeros_like(params)
        network = make_network(config, spec, spec.towers[0], params, len(x_NO), grads)
        out_NA = network.forward(x_NO).copy()
        network.backward(delta_NA.copy(order="F"))
        results.append((out_NA, grads))
    (numpy_out, numpy_grads), (torch_out, torch_grads) = results
    for what, ours, theirs in (("outputs", numpy_out, torch_out), ("gradients", numpy_grads, torch_grads)):
        if not np.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
            off = float(np.abs(ours - theirs).max())
            return Seen(False, f"NumPy and torch compute other {what}", "equal", f"off by {off:.3g}")
    return Seen(True, "NumPy and torch compute the same outputs and gradients")

"""One large problem on the CPU: the same bits whatever vectors the processor has."""

import os
import subprocess
import sys

import pytest


CODE = """
import hashlib
import jax, jax.numpy as jnp, numpy as np
import jaxmatch as jm
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
spec = jax.sharding.PartitionSpec

def tell(name, res):
    digest = hashlib.sha256()
    for x in jax.tree.leaves(res):
        digest.update(np.asarray(x).tobytes())
    print(name, int(res.status), digest.hexdigest())

for k, dtype in enumerate(["bfloat16", "float16", "float32", "float64", "int32"]):
    rng = np.random.default_rng(k)
    # 157: blocks of 32, and a part of one.
    for turn, (n, m) in enumerate([(90, 90), (61, 157), (157, 61)], k):
        cost = (rng.normal(size=(n, m)) * 2.0 ** rng.integers(-9, 9, (n, m)) * 10).astype("f4")
        if dtype != "int32":
            cost[rng.random((n, m)) < 0.2] = np.inf
        cost = jnp.asarray(cost).astype(dtype)
        for by, method in enumerate(["core", "auction", "classical", "tree"], turn):
            mask = np.arange(m) % 7 != 3 if by % 2 else None
            res = jm.solve_assignment(cost, col_mask=mask, method=method)
            tell(f"{dtype} {n} {m} {method}", res)
    # Half of the classes for each device.
    place = jax.sharding.NamedSharding(mesh, spec(None, "x"))
    res = jm.solve_assignment(jax.device_put(cost.T[:, :122], place), col_axis="x")
    tell(f"{dtype} sharded", res)
for k, metric in enumerate(["sqeuclidean", "euclidean", "l1", "cosine"]):
    for dtype in ("float32", "float64"):
        x, y = np.random.default_rng(0).normal(size=(2, 150, 3)).astype(dtype)
        for method in ("core", "jonker_volgenant"):
            maximize = (k + (dtype == "float64") + (method == "core")) % 2 == 0
            points = (x[:101], y) if maximize else (x, y[:101])
            how = {"metric": metric, "maximize": maximize, "method": method}
            res = jm.solve_assignment_points(*points, **how)
            tell(f"{metric} {dtype} {method}", res)
"""


@pytest.fixture(scope="module")
def portable():
    return told("portable")


def told(instructions):
    env = os.environ | {"JAXMATCH_ISA": instructions, "JAX_PLATFORMS": "cpu"}
    run = [sys.executable, "-c", CODE]
    return subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("instructions", ["avx2", "avx512"])  # or the best that there are
def test_same_bits(instructions, portable):
    lines = portable.splitlines()
    assert len(lines) == 5 * (3 * 4 + 1) + 16
    assert all(" 0 " in line for line in lines), "all can be solved"
    assert told(instructions) == portable

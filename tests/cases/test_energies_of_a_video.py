"""A loop outside of `jit` that keeps one number of each result, as the energies of a video, grew by
whole results: each number kept the cut, or the prices, beside it."""

import gc
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


N = 600
RANDOM = np.random.default_rng(0)
C, PAIRS, MASSES = RANDOM.random((N, N)), RANDOM.random((2, N, N)), np.full(N, 1 / N)
CALLS = {
    "grid_cut": lambda xp: jm.grid_cut(xp.asarray(C), xp.asarray(1 - C), xp.asarray(PAIRS)).value,
    "solve_transport": lambda xp: jm.solve_transport(xp.asarray(C), MASSES, MASSES).cost,
    "solve_assignment": lambda xp: jm.solve_assignment(xp.asarray(C)).cost,
}


@pytest.mark.skipif(not jm.has_cpu_library(), reason="of native calls")
@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("name", CALLS)
def test_energies_of_a_video(name, xp):
    jax.tree.leaves(CALLS[name](xp))
    tracemalloc.start()  # NumPy reports its memory
    try:
        kept = [CALLS[name](xp) for _ in range(5)]
        gc.collect()
        stays, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept[0].shape == () and stays < 5 * 8192 + 100_000  # caches of Python

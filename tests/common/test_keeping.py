"""Programs and results that are kept: compiled ahead of time, cached on disk, pickled, packed."""

import os
import pickle
import subprocess
import sys
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from export_cases import cases
from helpers import assert_same_bits

import jaxmatch as jm


the_cases = lru_cache(cases)

CACHED = """
import jax, numpy as np, jaxmatch as jm
from jax import monitoring
events = []
monitoring.register_event_listener(lambda event, **_: events.append(event))
cost = np.random.default_rng(0).random((2, 6, 7), np.float32)
found = jax.jit(jm.solve_assignment)(cost)
print(found.cost.tobytes().hex(), np.asarray(found.col4row).tolist())
print(sum(event.endswith("compilation_cache/cache_hits") for event in events))
"""


@pytest.mark.parametrize(
    "name", ["solve_assignment", "maximum_flow", "maximum_bipartite_matching", "solve_transport"]
)
def test_compiled_ahead_of_time(name):
    case = the_cases()[name]
    lowered = jax.jit(case.function).lower(*case.inputs)
    assert_same_bits(lowered.compile()(*case.inputs), jax.jit(case.function)(*case.inputs))


def test_ahead_of_time_from_types_alone():
    compiled = jax.jit(jm.solve_assignment).lower(jax.ShapeDtypeStruct((3, 4), jnp.float32))
    cost = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
    assert_same_bits(compiled.compile()(cost), jax.jit(jm.solve_assignment)(cost))


def test_persistent_cache_serves_a_new_process(tmp_path):
    environ = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-c", CACHED]
    first, second = (
        subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    (result, hits), (again, later_hits) = first.splitlines(), second.splitlines()
    assert result == again
    assert int(later_hits) > int(hits)


def kept():
    """Results of every kind, checks, graphs and networks: whatever is in a signature."""
    found = {}
    for case in the_cases().values():
        for x in case.inputs:
            if type(x).__module__.startswith("jaxmatch"):
                found[type(x).__name__] = jax.tree.map(jnp.asarray, x)
    return found


def test_pickled():
    for name, x in kept().items():
        again = pickle.loads(pickle.dumps(x))
        assert type(again) is type(x), name
        assert jax.tree.structure(again) == jax.tree.structure(x)
        assert_same_bits(again, x)


def test_checkpointed_by_orbax(tmp_path):
    """As pytrees of their own types."""
    checkpoint = pytest.importorskip("orbax.checkpoint")
    x = kept()
    types = jax.tree.map(lambda y: jax.ShapeDtypeStruct(y.shape, y.dtype), x)
    with checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "kept", x)
        checkpointer.wait_until_finished()
        again = checkpointer.restore(tmp_path / "kept", types)
    assert jax.tree.structure(again) == jax.tree.structure(x)
    assert_same_bits(again, x)


def test_packed_by_flax():
    """As their leaves: flax knows no dataclasses but its own."""
    serialization = pytest.importorskip("flax.serialization")
    for x in kept().values():
        leaves, tree = jax.tree.flatten(x)
        data = serialization.to_bytes(leaves)
        again = tree.unflatten(serialization.from_bytes([np.zeros_like(y) for y in leaves], data))
        assert type(again) is type(x)
        assert_same_bits(again, x)

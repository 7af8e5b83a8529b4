"""Programs around a solver: exported and read again, under `checkify`, under JAX's switches."""

import contextlib

import jax
import jax.numpy as jnp
import pytest
from helpers import assert_same_bits
from jax.experimental import checkify
from subjects import SUBJECTS

import jaxmatch as jm


SWITCHES = {
    "disable_jit": jax.disable_jit,
    "debug_nans": lambda: jax.debug_nans(True),
    "debug_infs": lambda: jax.debug_infs(True),
    "checking_leaks": jax.checking_leaks,
    "strict_ranks": lambda: jax.numpy_rank_promotion("raise"),
}


def case(name):
    """The solver of a batch, a batch, and the results."""
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    solve = row.call()
    return solve, given, jax.jit(solve)(*given)


@pytest.mark.parametrize("name", SUBJECTS)
def test_exported(name, platform):
    pytest.importorskip("flatbuffers")
    solve, given, expected = case(name)
    leaves, tree = jax.tree.flatten(given)
    export = jax.export.export(
        jax.jit(lambda *x: jax.tree.leaves(solve(*jax.tree.unflatten(tree, x)))),
        platforms=[platform],
        disabled_checks=jm.export_safety_checks(),
    )
    found = jax.export.deserialize(export(*leaves).serialize()).call(*leaves)
    assert_same_bits(found, jax.tree.leaves(expected))


@pytest.mark.parametrize("name", SUBJECTS)
def test_under_checkify(name, platform):
    solve, given, expected = case(name)
    error, found = jax.jit(checkify.checkify(solve))(*given)
    assert error.get() is None
    assert_same_bits(found, expected)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_under_switches(name, switch, platform):
    solve, given, expected = case(name)
    with contextlib.ExitStack() as on:
        on.enter_context(SWITCHES[switch]())
        found = solve(*given) if switch == "disable_jit" else jax.jit(solve)(*given)
    assert_same_bits(found, expected)

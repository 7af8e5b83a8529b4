"""What must hold for all costs: equivariance, independence, and the same bits every time."""

import os
import subprocess
import sys

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from exact import prove
from helpers import assert_same_bits, numpy_dtype, problem, to_numpy, x64
from hypothesis import given, settings

import jaxmatch as jm


# Few shapes, so that few are compiled.
SHAPES = [(1, 1), (3, 3), (4, 7), (7, 4), (9, 9)]

always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=120)


def costs_of(shape, forbidden=True):
    """Small integers, exact in every dtype, with many ties; some pairs are forbidden."""
    numbers = st.integers(-9, 9).map(float)
    numbers = st.one_of(numbers, numbers, numbers, st.just(np.inf)) if forbidden else numbers
    return hnp.arrays(np.float32, shape, elements=numbers)


@st.composite
def problems(draw, forbidden=True, shapes=SHAPES):
    """Costs, and unmatched costs or None."""
    n, m = draw(st.sampled_from(shapes))
    r = draw(st.none() | hnp.arrays(np.float32, n, elements=st.integers(-5, 9).map(float)))
    return draw(costs_of((n, m), forbidden)), r


def permutations(size):
    return st.permutations(range(size)).map(lambda p: np.array(p, int))


@always_the_same
@given(problems(), st.data())
def test_rows_and_columns_in_another_order(case, data):
    costs, r = case
    p, q = (data.draw(permutations(size)) for size in costs.shape)
    res = to_numpy(jm.solve_assignment(costs, unmatched_cost=r))
    moved = to_numpy(
        jm.solve_assignment(costs[p][:, q], unmatched_cost=None if r is None else r[p])
    )
    assert (moved.status, moved.gap) == (res.status, res.gap) or res.status != jm.Status.OPTIMAL
    np.testing.assert_array_equal(moved.cost, res.cost)
    if res.status == jm.Status.OPTIMAL:  # the moved duals prove the other's assignment
        leave = None if r is None else r[p]
        assert prove(costs[p][:, q], moved.col4row, res.col_dual[q], unmatched_cost=leave)[1] == 0


@always_the_same
@given(st.sampled_from(SHAPES), st.integers(0, 2**32 - 1))
def test_the_assignment_moves_along_where_it_is_unique(shape, seed):
    rng = np.random.default_rng(seed)
    costs = rng.random(shape).astype(np.float32)
    p, q = (rng.permutation(size) for size in shape)
    res = to_numpy(jm.solve_assignment(costs))
    moved = to_numpy(jm.solve_assignment(costs[p][:, q]))
    expected = np.where(res.row4col < 0, -1, np.argsort(p)[res.row4col])[q]
    np.testing.assert_array_equal(moved.row4col, expected)


@always_the_same
@given(problems(), st.data())
def test_constants_added_to_rows_and_columns(case, data):
    """Added to the side that must be matched, or to what leaving costs too: the optimum shifts."""
    costs, r = case
    n, m = costs.shape
    shift = st.integers(-50, 50).map(float)
    a = data.draw(hnp.arrays(np.float32, n, elements=shift)) * (n <= m or r is not None)
    b = data.draw(hnp.arrays(np.float32, m, elements=shift)) * (m <= n and r is None)
    res = to_numpy(jm.solve_assignment(costs, unmatched_cost=r))
    other = costs + a[:, None] + b
    shifted = to_numpy(jm.solve_assignment(other, unmatched_cost=None if r is None else r + a))
    assert shifted.status == res.status
    np.testing.assert_array_equal(shifted.cost, res.cost + a.sum() + b.sum())
    if res.status == jm.Status.OPTIMAL:
        leave = None if r is None else r + a
        assert prove(other, res.col4row, shifted.col_dual, unmatched_cost=leave)[1] == 0
        assert prove(other, shifted.col4row, res.col_dual + b, unmatched_cost=leave)[1] == 0


@always_the_same
@given(problems())
def test_the_transposed_problem(case):
    costs, _ = case
    res, other = (to_numpy(jm.solve_assignment(c)) for c in (costs, costs.T))
    assert other.status == res.status
    np.testing.assert_array_equal(other.cost, res.cost)
    if res.status == jm.Status.OPTIMAL:
        assert prove(costs, other.row4col, other.row_dual)[1] == 0
        assert prove(costs.T, res.row4col, res.row_dual)[1] == 0


@always_the_same
@given(problems(), st.sampled_from([2.0**-60, 0.5, 2.0**40]))
def test_powers_of_two_change_no_bit_of_the_significands(case, factor):
    costs, r = case
    res = jm.solve_assignment(costs, unmatched_cost=r)
    factor = np.float32(factor)
    scaled = jm.solve_assignment(costs * factor, unmatched_cost=None if r is None else r * factor)
    for name in ("col4row", "row4col", "status"):
        np.testing.assert_array_equal(getattr(scaled, name), getattr(res, name))
    for name in ("cost", "row_dual", "col_dual", "gap"):
        np.testing.assert_array_equal(getattr(scaled, name), getattr(res, name) * factor)


@settings(always_the_same, max_examples=60)
@given(problems(shapes=[(4, 7), (7, 4), (9, 9)]))
def test_the_pure_jax_solver_agrees_in_cost(case):
    costs, r = case
    res = jm.solve_assignment(costs, unmatched_cost=r)
    twin = jm.solve_assignment(costs, unmatched_cost=r, method="xla")
    np.testing.assert_array_equal(twin.status, res.status)
    np.testing.assert_array_equal(twin.cost, res.cost)


@settings(always_the_same, max_examples=60)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=5, max_size=5), st.sampled_from(SHAPES))
def test_neighbours_do_not_matter(seeds, shape):
    """Alone, in a batch, in another place of it, or beside bad ones: the same bits."""
    batch = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        c = rng.integers(0, 1 + seed % 50, shape).astype(np.float32)
        bad = rng.choice([0, 0, np.nan, np.inf])  # a row of them
        batch.append(c + np.where(np.arange(shape[0]) == 0, bad, 0)[:, None])
    costs = np.stack(batch).astype(np.float32)
    res = jm.solve_assignment(costs)
    for k, c in enumerate(costs):
        assert_same_bits(jm.solve_assignment(c), problem(res, k))
    backwards = jm.solve_assignment(costs[::-1])
    assert_same_bits(problem(backwards, slice(None, None, -1)), res)


def test_vmap_loop_and_batch_give_the_same_bits():
    shape = (9, 24)
    rng = np.random.default_rng(shape)
    costs = rng.random((4, 3, *shape)).astype(np.float32)
    r = rng.random((4, 3, shape[0])).astype(np.float32)
    solve = lambda c, r: jm.solve_assignment(c, unmatched_cost=r)  # noqa: E731
    batch = solve(costs, r)
    assert_same_bits(jax.vmap(solve)(costs, r), batch)
    assert_same_bits(jax.jit(jax.vmap(jax.vmap(solve)))(costs, r), batch)
    across = jax.vmap(solve, in_axes=1, out_axes=1)(costs, r)
    assert_same_bits(across, batch)
    assert_same_bits(jax.lax.map(lambda x: solve(*x), (costs, r)), batch)
    shared = jax.vmap(solve, in_axes=(None, 0))(costs[0, 0], r[0])
    for k in range(3):
        assert_same_bits(problem(shared, k), solve(costs[0, 0], r[0, k]))


def test_repeated_calls_give_the_same_bits():
    """A batch large enough to be spread over threads, that finish in any order."""
    costs = np.random.default_rng(1).integers(0, 30, (600, 20, 20)).astype(np.float32)
    first = jm.solve_assignment(costs)
    for _ in range(5):
        assert_same_bits(jm.solve_assignment(costs), first)
    jax.clear_caches()
    assert_same_bits(jax.jit(jm.solve_assignment)(costs), first)
    for k in range(0, 600, 97):
        assert_same_bits(jm.solve_assignment(costs[k]), problem(first, k))


# Prints a digest of many results. Sizes around a vector's width; ties, forbidden pairs, rounding.
# The native target itself, which is quicker to trace.
_DIGEST = """
import hashlib
import jax, ml_dtypes, numpy as np
from jaxmatch._assignment import native
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
for dtype in ("bfloat16", "float16", "float32", "float64", "int32", "int64"):
    digest = hashlib.sha256()
    for n, m in [(8, 8), (17, 17), (5, 19), (21, 12)]:
        costs = rng.random((60, n, m)) * np.array([3, 3, 100, 1000])[rng.integers(0, 4, (60, 1, 1))]
        if "float" in dtype:
            costs = np.where(rng.random(costs.shape) < 0.1, np.inf, costs)
        costs = np.where(np.arange(60)[:, None, None] % 2, costs, np.floor(costs))
        costs = costs.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        r, v = rng.random((60, n)) * 50, rng.random((60, m))
        for given in [(None, None), (r, None), (None, v), (r, v)]:
            res = native.assignment(
                costs, None, None, *given, maximize=False, platform="cpu"
            )
            for x in jax.tree.leaves(res):
                digest.update(np.asarray(x).tobytes())
    print(dtype, digest.hexdigest(), (res.status == 0).sum())
"""


def test_instruction_sets_give_the_same_bits():
    digests = {}
    for isa in ("portable", "avx2", "best"):
        env = os.environ | {"JAXMATCH_ISA": isa.removeprefix("best"), "JAX_PLATFORMS": "cpu"}
        run = [sys.executable, "-c", _DIGEST]
        done = subprocess.run(run, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        digests[isa] = done.stdout.splitlines()
        assert len(digests[isa]) == 6 and not any(line.endswith(" 0") for line in digests[isa])
    assert digests["portable"] == digests["avx2"] == digests["best"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int32", "int64"])
def test_dtypes_agree_on_small_integers(dtype):
    """The same numbers in another dtype: the same answer in every bit, duals and ties too."""
    costs = np.random.default_rng(2).integers(-99, 100, (40, 13, 13))
    with x64(True):
        expected = jm.solve_assignment(costs.astype(np.float64))
        assert_same_bits(jm.solve_assignment(costs.astype(numpy_dtype(dtype))), expected)

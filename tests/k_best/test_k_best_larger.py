"""`k_best_assignments` of larger problems: against another solver, and against itself."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from k_best_truth import assert_true

import jaxmatch as jm
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._k_best.native import counted


def family(name: str, n: int, m: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    if name == "uniform":
        return rng.random((n, m))
    if name == "ties":
        return rng.integers(0, 8, (n, m)).astype(float)
    if name == "low rank":
        return np.round(1e6 * rng.random((n, 2)) @ rng.random((2, m)))
    if name == "sparse":
        cost = np.where(rng.random((n, m)) < 6 / m, rng.integers(1, 99, (n, m)), np.inf)
        cost[np.arange(min(n, m)), np.arange(min(n, m))] = 50
        return cost
    x, y = rng.random((n, 2)), rng.random((m, 2))
    return ((x[:, None] - y) ** 2).sum(-1)


FAMILIES = ["uniform", "ties", "low rank", "sparse", "points"]


@pytest.mark.parametrize("name", [x for x in FAMILIES if x != "sparse"])
def test_against_fastlap(name):
    fastlap = pytest.importorskip("fastlap")
    cost = family(name, 30, 30)
    theirs = [x[0] for x in fastlap.solve_lap_kbest(cost, 60)]
    res = jm.k_best_assignments(cost, 60)
    np.testing.assert_allclose(res.cost, theirs, rtol=1e-12)
    assert jm.check_k_best(cost, res).valid


@pytest.mark.parametrize("shape", [(40, 40), (24, 60), (60, 24)])
@pytest.mark.parametrize("name", FAMILIES)
def test_larger_problems(name, shape):
    """The list holds for any order of rows and columns, transposed, and for any k."""
    rng = np.random.default_rng(8)
    cost, k = family(name, *shape), 80
    res = jm.k_best_assignments(cost, k)
    check = jm.check_k_best(cost, res)
    assert check.valid and check.gap <= 1e-12 and int(res.count) == k
    best = jm.solve_assignment(cost)
    np.testing.assert_allclose(res.cost[0], best.cost, rtol=1e-14)
    rows, cols = (rng.permutation(size) for size in shape)
    others = [
        jm.k_best_assignments(cost[rows][:, cols], k),
        jm.k_best_assignments(np.ascontiguousarray(cost.T), k),
        jm.k_best_assignments(-cost, k, maximize=True),
        jm.k_best_assignments(np.pad(cost, 2), k, row_mask=np.pad(np.ones(shape[0], bool), 2),
                              col_mask=np.pad(np.ones(shape[1], bool), 2)),
    ]  # fmt: skip
    for other in others:
        np.testing.assert_allclose(np.abs(other.cost), np.abs(res.cost), rtol=1e-13)
    for fewer in (1, 2, 33):
        short = jm.k_best_assignments(cost, fewer)
        np.testing.assert_array_equal(short.cost, res.cost[:fewer])


@pytest.mark.parametrize("method", ["murty", "xla"])
def test_twin_and_native_agree(method):
    cost = family("uniform", 9, 9).astype(np.float32)
    expected = jm.k_best_assignments(cost.astype(np.float64), 40).cost
    res = jm.k_best_assignments(cost, 40, method=method)
    np.testing.assert_allclose(res.cost, expected, rtol=1e-6)
    assert jm.check_k_best(cost, res).valid


def test_the_first_is_the_best_one():
    """As `solve_assignment` finds it, where that is the only one."""
    cost = np.random.default_rng(9).random((20, 6, 7))
    res, best = jm.k_best_assignments(cost, 1), jm.solve_assignment(cost)
    np.testing.assert_array_equal(res.col4row[:, 0], best.col4row)
    np.testing.assert_array_equal(res.row4col[:, 0], best.row4col)
    np.testing.assert_allclose(res.cost[:, 0], best.cost, rtol=1e-15)
    np.testing.assert_array_equal(res.count, 1)


@pytest.mark.parametrize("method", ["murty", "xla"])
def test_many_more_than_there_are(method):
    cost = np.random.default_rng(10).random((3, 4)).astype(np.float32)
    res = jm.k_best_assignments(cost, 3000, method=method)
    assert assert_true(cost, res) == 24


def test_searches_are_few():
    """Lower bounds spare most of the searches: each assignment listed has up to 100 children."""
    for name, most in (("uniform", 1500), ("ties", 400), ("points", 1500)):
        cost = family(name, 100, 100)
        problem = AssignmentProblem(cost)  # type: ignore[arg-type]
        res, counts = counted(problem, 100, maximize=False, platform="cpu")
        assert int(res.count) == 100
        assert 100 <= int(counts[0]) < most
        assert int(counts[1]) < 20 * most


def test_instruction_sets_give_the_same_bits():
    program = """
import hashlib, jax, numpy as np, jaxmatch as jm
rng = np.random.default_rng(0)
found = hashlib.sha256()
for cost in (rng.random((33, 41)), rng.integers(0, 5, (40, 37)), rng.random((3, 3))):
    for x in jax.tree.leaves(jm.k_best_assignments(cost, 50)):
        found.update(np.asarray(x).tobytes())
print(found.hexdigest())
"""
    found = set()
    for name in ("portable", "avx2", "avx512"):
        env = os.environ | {"JAXMATCH_ISA": name}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        found.add(done.stdout)
    assert len(found) == 1

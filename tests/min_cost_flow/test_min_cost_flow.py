"""Flows of minimum cost against or-tools, networkx, HiGHS, enumeration and rational arithmetic."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from helpers import x64
from min_cost_flow_helpers import (
    METHODS,
    PROVED,
    Problem,
    by_enumeration,
    by_highs,
    by_ortools,
    prove,
    random_problem,
    scaled,
    verdict,
)
from min_cost_flow_truth import Truth

import jaxmatch as jm
from jaxmatch import Status


KINDS = {
    "plain": {"negative": False},
    "negative": {},
    "lower": {"lower": True},
    "endless": {"endless": 0.3},
    "all": {"lower": True, "endless": 0.2},
}


def truth(problem):
    return by_ortools(
        problem.network.senders,
        problem.network.receivers,
        problem.capacity,
        problem.cost,
        problem.supply,
        0 if problem.lower is None else problem.lower,
    )


def is_right(problem, res):
    """Proved by the check, and if limits are finite by or-tools."""
    status = Status(int(res.status))
    assert verdict(problem, res) == PROVED[status]
    assert bool(res.source_side.any()) == (status == Status.INFEASIBLE)
    assert bool(res.cycle.any()) == (status == Status.UNBOUNDED)
    if status != Status.UNBOUNDED:
        best = truth(problem)
        assert (best is None) == (status == Status.INFEASIBLE)
        assert best is None or res.cost == best
    return status


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_integers(kind, method):
    rng, found = np.random.default_rng(0), []
    for nodes, edges in [(2, 3), (5, 12), (9, 30)] * 20:
        problem = random_problem(rng, nodes, edges, **KINDS[kind])
        res = problem.solve(method=method)
        assert res.cost.dtype == res.potential.dtype == res.gap.dtype == np.int64
        found.append(is_right(problem, res))
    assert {Status.OPTIMAL, Status.INFEASIBLE} <= {*found}
    assert (Status.UNBOUNDED in found) == (kind in ("endless", "all"))


@pytest.mark.parametrize("kind", KINDS)
def test_integers_of_the_twin(kind):
    """One program for all: batches of problems on stacked networks."""
    rng = np.random.default_rng(1)
    problems = [random_problem(rng, 6, 14, **KINDS[kind]) for _ in range(24)]
    batch = Problem(jm.FlowNetwork.stack([x.network for x in problems], num_arcs=28), *(
        None if x[0] is None else np.stack(x) for x in list(zip(*problems, strict=True))[1:]
    ))  # fmt: skip
    res = batch.solve(method="xla")
    found = {is_right(x, res[k]) for k, x in enumerate(problems)}
    assert {Status.OPTIMAL, Status.INFEASIBLE} <= found


@pytest.mark.parametrize("method", METHODS)
def test_enumeration(method):
    rng = np.random.default_rng(2)
    for _ in range(40):
        problem = random_problem(rng, 3, 5, most=3, lower=True)
        problem = problem._replace(supply=np.sign(problem.supply))
        problem.supply[0] -= problem.supply.sum()
        res, best = problem.solve(method=method), by_enumeration(problem)
        assert (res.status == Status.INFEASIBLE) == (best is None)
        assert best is None or res.cost == best


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_of_hostile_problems(kind):
    """The campaign's own, in fractions."""
    rng = np.random.default_rng(7)
    for nodes, edges in [(2, 3), (4, 9), (6, 14)] * 20:
        problem = random_problem(rng, nodes, edges, **KINDS[kind])
        exact = Truth(problem.network.senders, problem.network.receivers, *problem[1:])
        assert (truth(problem) is None) == (exact.shortage() > 0)
        if not exact.has_cycle():
            assert exact.optimum() == truth(problem)


@pytest.mark.parametrize("seed", range(8))
def test_networkx(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 7, 25, endless=0.2, negative=seed % 2 == 0)
    graph = nx.MultiDiGraph()
    for u, supply in enumerate(problem.supply.tolist()):
        graph.add_node(u, demand=-supply)
    ends = (np.asarray(problem.network.senders), np.asarray(problem.network.receivers))
    for u, v, capacity, cost in zip(*ends, problem.capacity, problem.cost, strict=True):
        limit = {} if capacity == np.iinfo(np.int64).max else {"capacity": int(capacity)}
        graph.add_edge(int(u), int(v), weight=int(cost), **limit)
    res = problem.solve()
    try:
        assert res.cost == nx.network_simplex(graph)[0]
    except nx.NetworkXUnfeasible:
        assert res.status == Status.INFEASIBLE
    except nx.NetworkXUnbounded:
        assert res.status == Status.UNBOUNDED


@pytest.mark.parametrize("method", METHODS)
def test_floats(method):
    """Numbers of no short binary form, so that sums are rounded."""
    rng, solved = np.random.default_rng(3), 0
    for k in range(40):
        problem = scaled(random_problem(rng, 6, 18, lower=k % 2 == 0, endless=0.1), 0.1, 0.7)
        res = problem.solve(method=method)
        status = Status(int(res.status))
        assert verdict(problem, res) == PROVED[status]
        if status != Status.OPTIMAL:
            continue
        solved += 1
        cost, gap = prove(problem, res)
        np.testing.assert_allclose(float(cost), res.cost, rtol=1e-12, atol=1e-14)
        assert gap <= Fraction(res.gap.item())
        np.testing.assert_allclose(res.cost, by_highs(problem), rtol=1e-7, atol=1e-9)
    assert solved > 10


def test_random_floats():
    rng = np.random.default_rng(4)
    for _ in range(20):
        ends = rng.integers(0, 8, (2, 40))
        supply = rng.normal(size=8)
        supply -= supply.mean()
        capacity, cost = rng.exponential(size=(2, 40))
        problem = Problem(jm.FlowNetwork.from_edges(*ends, 8), 3 * capacity, cost - 0.3, supply)
        res, best = problem.solve(), by_highs(problem)
        assert (best is None) == (res.status == Status.INFEASIBLE)
        assert verdict(problem, res) == PROVED[Status(int(res.status))]
        if best is not None:
            np.testing.assert_allclose(res.cost, best, rtol=1e-7)


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("mass", ["int32", "float32", "int64", "float64"])
@pytest.mark.parametrize("cost", ["int32", "float32", "int64", "float64"])
def test_dtypes(cost, mass, on):
    """Of masses and costs, in JAX and NumPy."""
    wide = "64" in cost + mass
    if wide and not on:
        pytest.skip("needs x64")
    network = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], 3)
    with x64(on):
        given = np.array([2, 9, 9], mass), np.array([1, 5, 2], cost), np.array([3, 0, -3], mass)
        res = jm.minimum_cost_flow(network, *map(jnp.asarray, given))
        whole = "float" not in cost + mass
        value = ("int" if whole else "float") + ("64" if on else "32")
        assert res.flow.dtype == mass
        assert {x.dtype.name for x in (res.cost, res.potential, res.gap)} == {value}
        assert isinstance(res.flow, jax.Array)
        for x in (res, jax.jit(jm.minimum_cost_flow)(network, *given)):
            assert x.cost == 11 and x.flow.tolist() == [2, 1, 2] and x.gap == 0


def test_half_precision_and_narrow_integers():
    network = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], 3)
    given = jnp.array([2, 9, 9]), jnp.array([1, 5, 2]), jnp.array([3, 0, -3])
    for dtype in (jnp.bfloat16, jnp.float16):
        res = jm.minimum_cost_flow(network, *(x.astype(dtype) for x in given))
        assert res.flow.dtype == res.cost.dtype == np.float32 and res.cost == 11
    res = jm.minimum_cost_flow(network, *(x.astype(jnp.int8) for x in given))
    assert res.flow.dtype == np.int32 and res.cost == 11
    narrow = np.array([255, 0, 0], np.uint8)  # a number, and not "no limit"
    res = jm.minimum_cost_flow(network, narrow, given[1], np.array([255, -255, 0], np.int16))
    assert res.status == Status.OPTIMAL and res.flow.tolist() == [255, 0, 0]


def test_no_limit_in_mixed_dtypes():
    """The largest number of int32 and int64 is no limit, whatever the masses become."""
    network = jm.FlowNetwork.from_edges([0, 1], [1, 0], 2)
    for dtype in (np.int32, np.int64):
        capacity = np.full(2, np.iinfo(dtype).max, dtype)
        for supply in (np.zeros(2, np.int64), np.zeros(2), np.zeros(2, np.float32)):
            res = jm.minimum_cost_flow(network, capacity, np.array([1, -2]), supply)
            assert res.status == Status.UNBOUNDED and res.cycle.all()
    finite = np.array([7, np.iinfo(np.int32).max - 1], np.int32)
    res = jm.minimum_cost_flow(network, finite, np.array([1, -2]), np.zeros(2, np.int32))
    assert res.status == Status.OPTIMAL and res.cost == -7


def test_warm_starts():
    """A start changes neither the cost nor the proof, whatever it is."""
    rng = np.random.default_rng(5)
    for _ in range(15):
        problem = random_problem(rng, 6, 18, lower=True)
        cold = problem.solve()
        other = problem._replace(cost=problem.cost + rng.integers(0, 3, 18))
        n = rng.integers(-9, 9, 6)
        for start in (cold, other.solve(), n, n * 1e300, np.full(6, np.nan)):
            for x in (problem, other):
                res = x.solve(warm_start=start)
                assert verdict(x, res) == PROVED[Status(int(res.status))]
        assert problem.solve(warm_start=cold).cost == cold.cost

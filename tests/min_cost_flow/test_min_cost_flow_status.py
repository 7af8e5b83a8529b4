"""Every status, its proof, and what comes first if there are several reasons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from min_cost_flow_helpers import METHODS, PROVED, Problem, verdict

import jaxmatch as jm
from jaxmatch import Status


NETWORK = jm.FlowNetwork.from_edges([0, 1, 2, 0], [1, 2, 0, 2], 3)
CAPACITY, COST, SUPPLY = [5.0, 5.0, 5.0, 1.0], [1.0, 1.0, -3.0, 4.0], [2.0, 0.0, -2.0]
NAN, INF = np.nan, np.inf


def changed(x, **at):
    y = np.array(x)
    for k, value in at.items():
        y[int(k[1:])] = value
    return y


CASES = {
    "capacity is NaN": (Status.INVALID_CAPACITY, changed(CAPACITY, k1=NAN), COST, SUPPLY, None),
    "negative": (Status.INVALID_CAPACITY, changed(CAPACITY, k1=-1), COST, SUPPLY, None),
    "minus infinity": (Status.INVALID_CAPACITY, changed(CAPACITY, k0=-INF), COST, SUPPLY, None),
    "crossed": (Status.INVALID_CAPACITY, CAPACITY, COST, SUPPLY, [0, 0, 0, 2.0]),
    "lower is NaN": (Status.INVALID_CAPACITY, CAPACITY, COST, SUPPLY, [0, NAN, 0, 0]),
    "lower is -inf": (Status.INVALID_CAPACITY, CAPACITY, COST, SUPPLY, [0, -INF, 0, 0]),
    "lower is inf": (
        Status.INVALID_CAPACITY, changed(CAPACITY, k1=INF), COST, SUPPLY, [0, INF, 0, 0]
    ),
    "forbidden but needed": (
        Status.INVALID_CAPACITY, CAPACITY, changed(COST, k3=INF), SUPPLY, [0, 0, 0, 1.0]
    ),
    "cost is NaN": (Status.INVALID_COST, CAPACITY, changed(COST, k0=NAN), SUPPLY, None),
    "cost is -inf": (Status.INVALID_COST, CAPACITY, changed(COST, k0=-INF), SUPPLY, None),
    "supply is NaN": (Status.INVALID_MASS, CAPACITY, COST, changed(SUPPLY, k1=NAN), None),
    "supply is inf": (Status.INVALID_MASS, CAPACITY, COST, [INF, 0, -INF], None),
    "unbalanced": (Status.UNBALANCED, CAPACITY, COST, [2.0, 0, -1.5], None),
    "too little capacity": (Status.INFEASIBLE, CAPACITY, COST, [7.0, 0, -7.0], None),
    "lower bounds alone": (Status.INFEASIBLE, [5.0, 1, 0, 0], COST, [1.0, 0, -1.0], [3.0, 0, 0, 0]),
    "unbounded": (Status.UNBOUNDED, [INF, INF, INF, 1], COST, SUPPLY, None),
    # What comes first.
    "cost before capacity": (
        Status.INVALID_COST, changed(CAPACITY, k1=NAN), changed(COST, k0=NAN), [NAN, 1, 2], None
    ),
    "capacity before mass": (
        Status.INVALID_CAPACITY, changed(CAPACITY, k1=NAN), COST, [NAN, 1, 2], None
    ),
    "mass before sums": (Status.INVALID_MASS, CAPACITY, COST, [NAN, 1, 2], None),
    "infeasible before unbounded": (
        Status.INFEASIBLE, [INF, INF, INF, 1], COST, [2.0, 0, -2.0], [0, 0, 0, 0]
    ),
}  # fmt: skip


def problem_of(name):
    _, *given, lower = CASES[name]
    network = NETWORK
    if name == "infeasible before unbounded":  # a node that no edge leaves has a supply
        network = jm.FlowNetwork.from_edges([0, 1, 2, 0], [1, 2, 0, 2], 4)
        given = [*given[:2], [0.0, 0, -1, 1]]
    given = [np.asarray(x, float) for x in given]
    return Problem(network, *given, None if lower is None else np.asarray(lower, float))


@pytest.mark.parametrize("method", [*METHODS, "xla"])
@pytest.mark.parametrize("name", CASES)
def test_statuses(name, method):
    problem, expected = problem_of(name), CASES[name][0]
    res = problem.solve(method=method)
    assert Status(int(res.status)) == expected
    for x in (res.flow, res.cost, res.potential):
        assert np.isnan(x).all()
    assert res.gap == 0.5 if expected == Status.UNBALANCED else np.isnan(res.gap)
    assert verdict(problem, res) == PROVED.get(expected, (False, False, False))
    assert res.source_side.any() == (expected == Status.INFEASIBLE)
    assert res.cycle.any() == (expected == Status.UNBOUNDED)
    with pytest.raises(ValueError, match=rf"^{expected.name}: "):
        res.raise_for_status()


@pytest.mark.parametrize("method", [*METHODS, "xla"])
def test_integers(method):
    """Numbers of a problem without an answer are −1."""
    most = np.iinfo(np.int64).max
    for status, capacity, cost, supply in (
        (Status.INVALID_CAPACITY, [1, -1, 1, 1], [1] * 4, [0, 0, 0]),
        (Status.UNBALANCED, [1] * 4, [1] * 4, [1, 0, -3]),
        (Status.INFEASIBLE, [1] * 4, [1] * 4, [3, 0, -3]),
        (Status.UNBOUNDED, [most] * 4, [1, 1, -3, 9], [1, 0, -1]),
    ):
        problem = Problem(NETWORK, *map(np.array, (capacity, cost, supply)))
        res = problem.solve(method=method)
        assert Status(int(res.status)) == status
        assert res.gap == (2 if status == Status.UNBALANCED else -1)
        assert res.cost == -1 and (res.flow == -1).all() and (res.potential == -1).all()
        assert verdict(problem, res) == PROVED.get(status, (False, False, False))


@pytest.mark.parametrize("method", [*METHODS, "xla"])
def test_ends_out_of_range(method):
    for name in ("senders", "receivers"):
        for bad in (-1, 3, 2**31 - 1):
            ends = np.array(getattr(NETWORK, name))
            ends[1] = bad
            network = jm.FlowNetwork(**vars(NETWORK) | {name: jnp.asarray(ends)})
            problem = Problem(network, *(np.array(x) for x in (CAPACITY, COST, SUPPLY)))
            res = problem.solve(method=method)
            assert res.status == Status.INVALID_GRAPH
            assert verdict(problem, res) == (False, False, False)


@pytest.mark.parametrize("method", METHODS)
def test_only_ends_of_the_network_are_read(method):
    """What was built of them may be anything."""
    broken = {name: -jnp.ones_like(getattr(NETWORK, name)) for name in ("arc_head", "arc_edge")}
    network = jm.FlowNetwork(**vars(NETWORK) | broken)
    given = [np.array(x) for x in (CAPACITY, COST, SUPPLY)]
    assert_same_bits(*(jm.minimum_cost_flow(x, *given, method=method) for x in (network, NETWORK)))


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_neighbours_in_a_batch(method):
    names = [name for name in CASES if name != "infeasible before unbounded"]
    problems = [problem_of(name) for name in names]
    stacked = [np.stack([x[k] for x in problems]) for k in (1, 2, 3)]
    lower = np.stack([np.zeros(4) if x.lower is None else x.lower for x in problems])
    solve = jax.jit(lambda *x: jm.minimum_cost_flow(NETWORK, *x[:3], lower=x[3], method=method))
    with jax.enable_x64(True):
        res = solve(*stacked, lower)
    assert [Status(int(x)) for x in res.status] == [CASES[name][0] for name in names]


def test_messages():
    res = problem_of("unbalanced").solve()
    with pytest.raises(ValueError, match=r"must sum to 0.* The difference is 0\.5\.$"):
        res.raise_for_status()
    with pytest.raises(ValueError, match="`cycle`"):
        problem_of("unbounded").solve().raise_for_status()


@pytest.mark.parametrize("method", [*METHODS, "xla"])
def test_supplies_that_sum_to_zero_but_for_roundings(method):
    """Of the whole network, and of parts that no edge connects."""
    whole = jm.FlowNetwork.from_edges([0, 1], [2, 2], 3)
    parts = jm.FlowNetwork.from_edges([0, 1, 5, 5], [2, 2, 3, 4], 6)
    for network, supply in (
        (whole, [0.1, 0.2, -0.3]),
        (whole, [-0.1, -0.2, 0.3]),
        (parts, [0.1, 0.2, -0.3, -0.1, -0.2, 0.3]),
        (parts, [1.0, 2.0, -3.0000003, -1.0, -2.0, 3.0000003]),
    ):
        flip = supply[0] < 0
        ends = np.asarray(network.senders), np.asarray(network.receivers)
        network = jm.FlowNetwork.from_edges(*(ends[::-1] if flip else ends), len(supply))
        e = network.num_edges
        problem = Problem(network, np.full(e, np.inf), np.ones(e), np.array(supply))
        res = problem.solve(method=method)
        assert res.status == Status.OPTIMAL
        assert verdict(problem, res) == PROVED[Status.OPTIMAL]
        np.testing.assert_allclose(res.cost, np.abs(supply).sum() / 2, rtol=1e-6)


@pytest.mark.parametrize("method", [*METHODS, "xla"])
@pytest.mark.parametrize("lack", [1e-7, 1e-12])
def test_a_capacity_that_lacks_little(method, lack):
    """Supplies that sum to 0 are not forgiven what a capacity lacks."""
    network = jm.FlowNetwork.from_edges([0], [1], 2)
    problem = Problem(network, np.array([1 - lack]), np.ones(1), np.array([1.0, -1]))
    res = problem.solve(method=method)
    assert res.status == Status.INFEASIBLE and problem.check(res).infeasible


def test_overflow():
    """Costs and masses whose sums do not fit 64 bits."""
    big = 2**62
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    res = jm.minimum_cost_flow(
        network, np.array([big, big]), np.array([9, 9]), np.array([big, 0, -big])
    )
    assert res.status == Status.OVERFLOW
    res = jm.minimum_cost_flow(
        network, np.array([9, 9]), np.array([big, big]), np.array([9, 0, -9])
    )
    assert res.status == Status.OVERFLOW
    small = jnp.array([9, 9]), jnp.array([2**30, 2**30]), jnp.array([9, 0, -9])
    assert jm.minimum_cost_flow(network, *small).status == Status.OVERFLOW  # the cost, in int32

"""What must hold for all networks: certificates, and how the value moves with the network."""

import hypothesis.strategies as st
import numpy as np
from flow_helpers import METHODS, assert_flow, by_search, random_edges
from helpers import to_numpy
from hypothesis import given, settings

import jaxmatch as jm


N, PAIRS, EDGES, MOST = 7, 10, 18, 12

always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=60)
methods = st.sampled_from(METHODS)


@st.composite
def problems(draw):
    """All of one shape, so that one is compiled: edges, capacities and two ends."""
    edges = random_edges(np.random.default_rng(draw(st.integers(0, 2**32))), N, PAIRS, EDGES)
    numbers = st.lists(st.integers(0, MOST), min_size=EDGES, max_size=EDGES)
    source = draw(st.integers(0, N - 1))
    sink = (source + draw(st.integers(1, N - 1))) % N
    return edges, np.array(draw(numbers), np.int32), source, sink


def build(edges, n=N):
    return jm.FlowNetwork.from_edges(*edges.T, n, layout="bcsr")


def solve(edges, capacity, source, sink, method, n=N):
    network = build(edges, n)
    res = jm.maximum_flow(network, capacity, source, sink, method=method)
    check = jm.check_flow(network, capacity, source, sink, res)
    assert check.valid and check.optimal
    return to_numpy(res)


@always_the_same
@given(problems(), methods)
def test_a_flow_and_its_cut(problem, method):
    edges, capacity, *ends = problem
    res = solve(*problem, method)
    assert_flow(build(edges), capacity, *ends, res)
    value, side = by_search(N, *edges.T, capacity.tolist(), *ends)
    assert res.value == value
    np.testing.assert_array_equal(res.source_side, side)


@always_the_same
@given(problems(), methods, st.integers(2, 1000))
def test_scaled_capacities_scale_the_value(problem, method, factor):
    edges, capacity, *ends = problem
    once, often = (solve(edges, c, *ends, method) for c in (capacity, factor * capacity))
    assert often.value == factor * once.value
    np.testing.assert_array_equal(often.source_side, once.source_side)
    floats = solve(edges, np.float32(0.1) * capacity.astype(np.float32), *ends, method)
    np.testing.assert_allclose(floats.value, 0.1 * once.value, rtol=1e-5)


@always_the_same
@given(problems(), methods, st.integers(0, EDGES - 1), st.integers(1, 9))
def test_more_capacity_never_hurts(problem, method, edge, more):
    edges, capacity, *ends = problem
    before = solve(*problem, method)
    capacity[edge] += more
    after = solve(edges, capacity, *ends, method)
    assert before.value <= after.value <= before.value + more
    side, (u, v) = before.source_side, edges[edge]
    if not (side[u] and not side[v]):  # that cut is as it was
        assert after.value == before.value


@always_the_same
@given(problems(), methods)
def test_turned_round(problem, method):
    edges, capacity, source, sink = problem
    turned = solve(edges[:, ::-1], capacity, sink, source, method)
    assert turned.value == solve(*problem, method).value


@always_the_same
@given(problems(), methods, st.permutations(range(N)), st.permutations(range(EDGES)))
def test_another_numbering(problem, method, nodes, order):
    edges, capacity, source, sink = problem
    nodes, order = np.array(nodes), np.array(order)
    ends = nodes[[source, sink]].tolist()
    moved = solve(nodes[edges][order], capacity[order], *ends, method)
    res = solve(*problem, method)
    assert moved.value == res.value
    np.testing.assert_array_equal(moved.source_side[nodes], res.source_side)

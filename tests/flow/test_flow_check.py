"""`check_flow` against its definition: every flow, value and cut of a small network."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")

# With an edge back, and self-loops at the source and at the inner node.
EDGES = np.array([(0, 1), (1, 2), (2, 1), (0, 0), (1, 1)])
CAPACITY = np.array([2, 1, 2, 1, 1])
SOURCE, SINK, N = 0, 2, 3


def all_claims():
    """Values, flows from -1 to 1 above the capacity, and source sides: all combinations of them."""
    values, sides = np.arange(-1, 4), itertools.product([False, True], repeat=N)
    flows = np.array([*itertools.product(*(range(-1, c + 2) for c in CAPACITY))])
    sides = np.array([*sides])
    at = np.indices((len(values), len(flows), len(sides))).reshape(3, -1)
    return values[at[0]], flows[at[1]], sides[at[2]]


def is_flow(value, flow):
    tail, head = EDGES.T
    net = flow @ (np.eye(N, dtype=int)[tail] - np.eye(N, dtype=int)[head])
    within = ((flow >= 0) & (flow <= CAPACITY)).all(-1)
    return (
        within
        & (flow[:, tail == head] == 0).all(-1)
        & (net[:, SOURCE] == value)
        & (net[:, SINK] == -value)
        & (net[:, 1] == 0)
    )


def is_cut_of(value, side):
    tail, head = EDGES.T
    crossing = np.where(side[:, tail] & ~side[:, head], CAPACITY, 0).sum(-1)
    return side[:, SOURCE] & ~side[:, SINK] & (crossing == value)


@pytest.mark.parametrize(
    "dtype, wide, scale",
    [("int32", False, 1), ("float32", False, 1), ("float64", True, 1),
     # The numbers are finite, the flow through a node is not.
     ("float32", False, 2.0**126), ("float32", True, 2.0**126), ("float64", True, 2.0**1022)],
)  # fmt: skip
def test_every_claim(dtype, wide, scale):
    value, flow, side = all_claims()
    valid = is_flow(value, flow)
    optimal = valid & is_cut_of(value, side)
    assert optimal.any() and (valid & ~optimal).any()
    network = jm.FlowNetwork.from_edges(*EDGES.T, N)
    with x64(wide):
        claims = jm.Flow(
            jnp.asarray(value * scale, dtype), jnp.asarray(flow * scale, dtype), jnp.asarray(side),
            jnp.zeros(len(value), jnp.int32),
        )  # fmt: skip
        check = jax.jit(jm.check_flow)
        found = check(network, jnp.asarray(CAPACITY * scale, dtype), SOURCE, SINK, claims)
    np.testing.assert_array_equal(found.valid, valid)
    np.testing.assert_array_equal(found.optimal, optimal)

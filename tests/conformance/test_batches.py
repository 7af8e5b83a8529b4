"""Problems of a batch get the bits that they get alone: mapped and in a scan."""

import jax
import jax.numpy as jnp
import pytest
from helpers import assert_same_bits
from subjects import BATCH, SUBJECTS


@pytest.fixture(params=SUBJECTS, scope="module")
def case(request):
    """A row, its solver of one problem and of a batch, problems, and what a jitted call answers."""
    row = SUBJECTS[request.param]
    given = jax.tree.map(jnp.asarray, row.instance())
    return row, row.one(), row.call(), given, jax.jit(row.call())(*given)


def test_alone_and_in_a_scan(case):
    """By `lax.map`, which is a scan, and by a call outside of `jit` for each problem."""
    row, one, _, given, expected = case
    shared, own = given[: row.shared], given[row.shared :]
    found = jax.jit(lambda *x: jax.lax.map(lambda y: one(*shared, *y), x))(*own)
    assert_same_bits(found, expected)
    for k in range(BATCH):
        alone = one(*row.problem(given, k))
        assert_same_bits(alone, jax.tree.map(lambda x, k=k: x[k], expected))


def test_mapped(case):
    row, one, _, given, expected = case
    assert_same_bits(jax.jit(row.mapped(one))(*given), expected)

"""A problem that has no answer says so, and leaves its neighbours in a batch alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from subjects import BATCH, METHODS, SUBJECTS

import jaxmatch as jm


NUMBERED = [(name, method) for name, method in METHODS if SUBJECTS[name].numbers]
BAD = 2  # this problem of a batch
INVALID = (jm.Status.INVALID_COST, jm.Status.INVALID_CAPACITY)


def spoilt(row):
    """A batch, one of whose problems has NaN in place of each number."""
    given = [*jax.tree.map(jnp.asarray, row.instance())]
    for at in row.numbers:
        given[at] = given[at].at[BAD].set(jnp.nan)
    return given


@pytest.mark.parametrize("name, method", NUMBERED)
def test_a_bad_problem_beside_good_ones(name, method):
    row = SUBJECTS[name]
    solve = jax.jit(row.call(method))
    expected, res = solve(*row.instance()), solve(*spoilt(row))
    others = np.delete(np.arange(BATCH), BAD)
    pick = lambda res: jax.tree.map(lambda x: x[others], res)  # noqa: E731
    assert_same_bits(pick(res), pick(expected))
    assert np.asarray(res.status).tolist() == [0, 0, res.status[BAD], 0]
    assert res.status[BAD] in INVALID
    for field, x in vars(res).items():
        x = np.asarray(x[BAD])
        if x.dtype.kind == "f" or jnp.issubdtype(x.dtype, jnp.inexact):
            assert np.isnan(x).all() or (field == "mass" and not x.any()), field
        elif field in ("row4col", "col4row", "rows", "cols"):
            assert (x == -1).all(), field


@pytest.mark.parametrize("name", [name for name, method in NUMBERED if method == "auto"])
def test_what_a_user_is_told(name):
    """By `raise_for_status`, which names the problem, and by the check."""
    row = SUBJECTS[name]
    given = spoilt(row)
    res = row.call()(*given)
    with pytest.raises(ValueError, match=rf"^INVALID_\w+ \(problem {BAD} of the batch\): .*\.$"):
        res.raise_for_status()
    optimal = row.checked()(*given, res).optimal
    assert np.asarray(optimal).tolist() == [k != BAD for k in range(BATCH)]

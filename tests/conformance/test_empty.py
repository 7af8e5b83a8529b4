"""Batches of no problems: results have the shapes and types that they have of any batch."""

import jax
import jax.numpy as jnp
import pytest
from subjects import METHODS, SUBJECTS


@pytest.mark.parametrize("name, method", METHODS)
def test_no_problems(name, method, platform):
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    none = row.problem(given, slice(0))
    like = jax.eval_shape(row.call(method), *given)
    res = row.call(method)(*none)
    shapes = [(0, *x.shape[1:]) for x in jax.tree.leaves(like)]
    assert [x.shape for x in jax.tree.leaves(res)] == shapes
    assert [x.dtype for x in jax.tree.leaves(res)] == [x.dtype for x in jax.tree.leaves(like)]
    if method == "auto":
        assert row.checked()(*none, res).optimal.shape == (0,)
        if row.numbers and row.smooth:
            slopes = jax.grad(lambda *x: getattr(row.call()(*x), row.value).sum(), row.numbers)
            for at, slope in zip(row.numbers, slopes(*none), strict=True):
                assert slope.shape == none[at].shape

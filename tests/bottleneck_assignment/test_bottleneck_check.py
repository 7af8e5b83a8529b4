"""`check_bottleneck` finds what is wrong with a result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bottleneck_helpers import family
from helpers import to_numpy

import jaxmatch as jm


N, M = 6, 8


@pytest.fixture(scope="module")
def solved():
    cost = family("points", 2, N, M)
    return cost, to_numpy(jm.bottleneck_assignment(cost))


def check(cost, res, **given):
    found = jm.check_bottleneck(jnp.asarray(cost), jax.tree.map(jnp.asarray, res), **given)
    return bool(found.valid), bool(found.optimal)


def test_right(solved):
    cost, res = solved
    assert check(cost, res) == (True, True)
    assert check(-cost, res.replace(bottleneck=-res.bottleneck), maximize=True) == (True, True)
    # A cover that has more than it needs.
    spare = N - 1 - res.row_cover.sum() - res.col_cover.sum()
    more = res.row_cover.copy()
    more[np.flatnonzero(~more)[:spare]] = True
    assert check(cost, res.replace(row_cover=more)) == (True, True)


def changed(x, index, value):
    x = x.copy()
    x[index] = value
    return x


def test_wrong_pairs(solved):
    cost, res = solved
    row, other = 2, int(np.flatnonzero(res.row4col < 0)[0])
    wrong = [
        {"col4row": changed(res.col4row, row, -1)},
        {"col4row": changed(res.col4row, row, other)},
        {"col4row": changed(res.col4row, row, M)},
        {"col4row": changed(res.col4row, row, -2)},
        {"col4row": changed(res.col4row, row, res.col4row[0])},
        {"row4col": changed(res.row4col, other, row)},
        {"row4col": changed(res.row4col, res.col4row[row], -1)},
        {
            "col4row": changed(res.col4row, row, -1),
            "row4col": changed(res.row4col, res.col4row[row], -1),
        },
        {"bottleneck": np.nextafter(res.bottleneck, np.float32(9))},
        {"bottleneck": np.nextafter(res.bottleneck, np.float32(-9))},
        {"bottleneck": np.float32(np.nan)},
        {"bottleneck": np.float32(-np.inf)},
    ]
    for changes in wrong:
        assert check(cost, res.replace(**changes)) == (False, False)
    row_mask = np.arange(N) != row
    assert check(cost, res, row_mask=row_mask) == (False, False)
    assert check(cost, res, col_mask=np.arange(M) != res.col4row[row]) == (False, False)
    assert check(changed(cost, (row, res.col4row[row]), np.inf), res) == (False, False)
    assert check(cost, res, maximize=True) == (False, False)


def test_covers_that_prove_nothing(solved):
    cost, res = solved
    nothing = {"row_cover": np.zeros(N, bool), "col_cover": np.zeros(M, bool)}
    assert check(cost, res.replace(**nothing)) == (True, False)
    everything = {"row_cover": np.ones(N, bool)}
    assert check(cost, res.replace(**everything)) == (True, False)
    for name in nothing:
        cover = getattr(res, name)
        for k in np.flatnonzero(cover):
            assert check(cost, res.replace(**{name: changed(cover, k, False)})) == (True, False)
    # Too many by one.
    more = res.row_cover.copy()
    more[np.flatnonzero(~more)[: N - res.row_cover.sum() - res.col_cover.sum()]] = True
    assert check(cost, res.replace(row_cover=more)) == (True, False)


def test_vertices_that_do_not_exist_prove_nothing():
    cost = np.array([[1, 5, 0], [5, 1, 0], [0, 0, 0]], np.float32)
    masks = {"row_mask": np.arange(3) < 2, "col_mask": np.arange(3) < 2}
    res = to_numpy(jm.bottleneck_assignment(cost, **masks))
    assert check(cost, res, **masks) == (True, True)
    # They do not count, either.
    assert check(cost, res.replace(row_cover=changed(res.row_cover, 2, True)), **masks)[1]


def test_a_worse_assignment(solved):
    cost, res = solved
    pairs = np.arange(N, dtype=np.int32)
    back = np.where(np.arange(M) < N, np.arange(M), -1).astype(np.int32)
    other = res.replace(col4row=pairs, row4col=back, bottleneck=np.diag(cost).max())
    assert check(cost, other) == (True, False)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_invalid_costs(solved, bad):
    cost, res = solved
    i, j = next(
        (i, j) for i in range(N) for j in range(M)
        if res.col4row[i] != j and (res.row_cover[i] or res.col_cover[j])
    )  # fmt: skip
    assert check(changed(cost, (i, j), bad), res) == (True, False)
    assert check(changed(cost, (i, j), np.inf), res) == (True, True)

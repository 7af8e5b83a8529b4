"""`solve_alignment` against all permutations, each with its best motion."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation

import jaxmatch as jm
from jaxmatch._alignment.motion import best_rotation
from jaxmatch._common.promotion import with_promotion


def turns(count, seed=0):
    return Rotation.random(count, random_state=seed).as_matrix()


def hidden(rng, count, n, noise, d=3):
    """Points, and the same ones turned, moved, in another order and with noise."""
    x = rng.normal(size=(count, n, d))
    turn = turns(count, 1) if d == 3 else np.linalg.qr(rng.normal(size=(count, d, d)))[0]
    turn[..., 0] *= np.sign(np.linalg.det(turn))[:, None]
    y = np.einsum("bij,bnj->bni", turn, x) + rng.normal(size=(count, 1, d))
    order = np.stack([rng.permutation(n) for _ in range(count)])
    y = np.take_along_axis(y + noise * rng.normal(size=y.shape), order[..., None], 1)
    return x, y, np.argsort(order, 1)


def kabsch(x, y, w, motion, mirror):
    """The least value for pairs in order, by a singular value decomposition."""
    if motion == "rigid":
        x, y = (p - w @ p / w.sum() for p in (x, y))
    if motion == "translation":
        off = x - y
        return w @ ((off - w @ off / w.sum()) ** 2).sum(-1)
    u, s, vt = np.linalg.svd(x.T @ (w[:, None] * y))
    if not mirror and np.linalg.det(u) * np.linalg.det(vt) < 0:
        s[-1] *= -1
    return w @ (x**2).sum(-1) + w @ (y**2).sum(-1) - 2 * s.sum()


def truth(x, y, motion, *, weights=None, mirror=False, kinds=None):
    n, w = len(x), np.ones(len(x)) if weights is None else weights
    best = np.inf
    for cols in permutations(range(len(y)), n):
        if kinds is None or (kinds[0] == kinds[1][list(cols)]).all():
            best = min(best, kabsch(x, y[list(cols)], w, motion, mirror))
    return best


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("mirror", [False, True])
def test_best_rotations(d, mirror):
    rng = np.random.default_rng(d)
    h = rng.normal(size=(40, d, d))
    h[0], h[1, 0] = 0, 0
    with jax.enable_x64(True):
        turn = np.asarray(with_promotion(best_rotation)(jnp.asarray(h), mirror))
    np.testing.assert_allclose(
        turn @ turn.transpose(0, 2, 1), np.broadcast_to(np.eye(d), h.shape), atol=1e-12
    )
    if not mirror:
        np.testing.assert_allclose(np.linalg.det(turn), 1, rtol=1e-12)
    u, s, vt = np.linalg.svd(h)
    if not mirror:
        s[..., -1] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
    np.testing.assert_allclose(np.einsum("bij,bji->b", turn, h), s.sum(-1), atol=1e-12)


@pytest.mark.parametrize("n", [20, 60])
def test_a_hidden_order_and_motion_are_found(n):
    x, y, expected = hidden(np.random.default_rng(n), 100, n, 0.02)
    res = jm.solve_alignment(x.astype(np.float32), y.astype(np.float32))
    assert (res.col4row == expected).all(-1).sum() >= 99
    assert (res.status == jm.Status.OPTIMAL).all() and (res.rmsd < 0.05).mean() >= 0.99
    moved = np.einsum("bij,bnj->bni", res.rotation, x) + res.translation[:, None]
    away = moved - np.take_along_axis(y, res.col4row[..., None], 1)
    np.testing.assert_allclose((away**2).sum((1, 2)), res.value, rtol=1e-3)
    np.testing.assert_allclose(np.sqrt(res.value / n), res.rmsd, rtol=1e-5)
    np.testing.assert_array_equal(
        np.take_along_axis(res.col4row, res.row4col, 1), np.arange(n)[None] + 0 * res.row4col
    )


@pytest.mark.parametrize("motion", ["rigid", "rotation", "translation"])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_against_all_permutations(motion, mirror, d):
    """Unrelated points, so that there are many local optima."""
    rng = np.random.default_rng(7)
    for kinds in (None, (np.arange(5) % 2, np.arange(5)[::-1] % 2)):
        x, y = rng.normal(size=(2, 6, 5, d))
        given = {} if kinds is None else {"x_kind": kinds[0], "y_kind": kinds[1]}
        res = jm.solve_alignment(x, y, motion=motion, reflections=mirror, **given)
        best = [truth(a, b, motion, mirror=mirror, kinds=kinds) for a, b in zip(x, y, strict=True)]
        assert (res.bound <= best).all() and (res.bound >= 0).all()
        np.testing.assert_allclose(res.value, best, rtol=1e-9)
        assert (res.agree >= 1).all()
        np.testing.assert_allclose(res.values.min(-1), res.value, rtol=1e-9)
        if motion == "translation":
            assert res.proved.all()


def test_fewer_points_than_partners_and_weights():
    rng = np.random.default_rng(8)
    x, y, w = rng.normal(size=(4, 4, 3)), rng.normal(size=(4, 6, 3)), rng.random(4) + 0.5
    for motion in ("rigid", "rotation", "translation"):
        res = jm.solve_alignment(x, y, motion=motion, weights=w, starts=400)
        best = np.array([truth(a, b, motion, weights=w) for a, b in zip(x, y, strict=True)])
        assert (res.bound <= best * (1 + 1e-9)).all()
        assert (res.value >= best * (1 - 1e-9)).all() and (res.value <= best * 1.05).all()
    for motion in ("rigid", "rotation"):
        res = jm.solve_alignment(x, y[:, :4], motion=motion, weights=w)
        best = [truth(a, b, motion, weights=w) for a, b in zip(x, y[:, :4], strict=True)]
        np.testing.assert_allclose(res.value, best, rtol=1e-9)
        assert (res.bound <= best).all()


def test_without_a_motion_it_is_an_assignment():
    rng = np.random.default_rng(9)
    x, y = rng.random((12, 3)), rng.random((15, 3))
    res = jm.solve_alignment(x, y, motion=None)
    cost = ((x[:, None] - y) ** 2).sum(-1)
    assert np.isclose(res.value, cost[linear_sum_assignment(cost)].sum(), rtol=1e-12)
    assert res.proved and res.values.shape == (1,)


def test_never_above_the_reference_loop():
    """Axes of inertia, one assignment and one fit, as scripts for molecules do it."""
    rng = np.random.default_rng(10)
    x, y, _ = hidden(rng, 30, 15, 0.4)
    res = jm.solve_alignment(x, y)
    for k in range(len(x)):
        a, b = (p - p.mean(0) for p in (x[k], y[k]))
        axes = [np.linalg.eigh(p.T @ p)[1] for p in (a, b)]
        for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            turn = axes[1] * [*signs, 1] @ axes[0].T
            turn = turn if np.linalg.det(turn) > 0 else axes[1] * [*signs, -1] @ axes[0].T
            cost = (((a @ turn.T)[:, None] - b) ** 2).sum(-1)
            value = kabsch(a, b[linear_sum_assignment(cost)[1]], np.ones(15), "rigid", False)
            assert res.value[k] <= value * (1 + 1e-12)


def test_axes_of_inertia_start_in_all_directions():
    """One of four proper directions finds what is hidden, so five starts do, with no turn."""
    x, y, expected = hidden(np.random.default_rng(23), 30, 40, 0.01)
    res = jm.solve_alignment(x, y, starts=5)
    assert (res.col4row == expected).all(-1).mean() > 0.9


def test_motions_and_relabelling_do_not_matter():
    rng = np.random.default_rng(11)
    x, y, _ = hidden(rng, 4, 10, 0.1)
    res = jm.solve_alignment(x, y)
    order = rng.permutation(10)
    for turn, shift in zip(turns(3, 5), rng.normal(size=(3, 3)), strict=True):
        moved = jm.solve_alignment(x @ turn.T + shift, y)
        np.testing.assert_allclose(moved.value, res.value, rtol=1e-9)
        moved = jm.solve_alignment(x, (y @ turn.T + shift)[:, order])
        np.testing.assert_allclose(moved.value, res.value, rtol=1e-9)
        np.testing.assert_array_equal(order[moved.col4row], res.col4row)
    swapped = jm.solve_alignment(y, x)
    np.testing.assert_allclose(swapped.value, res.value, rtol=1e-9)
    larger = jm.solve_alignment(8 * x, 8 * y)
    np.testing.assert_allclose(larger.value, 64 * res.value, rtol=1e-9)


def test_mirror_images():
    rng = np.random.default_rng(12)
    x, y, _ = hidden(rng, 4, 12, 0.01)
    y[..., 2] *= -1
    assert (jm.solve_alignment(x, y).rmsd > 0.1).all()
    res = jm.solve_alignment(x, y, reflections=True)
    assert (res.rmsd < 0.03).all() and (np.linalg.det(res.rotation) < 0).all()


def test_padding_and_kinds_of_a_batch():
    """Problems of several sizes in one batch, each as alone; padding holds NaN."""
    rng = np.random.default_rng(13)
    sizes, n = (5, 8, 11), 11
    x, y = np.full((2, 3, n, 3), np.nan)
    kind = np.zeros((2, 3, n), int)
    alone = []
    for k, size in enumerate(sizes):
        a, b, _ = hidden(rng, 1, size, 0.1)
        x[k, :size], y[k, :size] = a[0], b[0]
        kind[0, k, :size] = rng.integers(1, 3, size)
        kind[1, k, :size] = rng.permutation(kind[0, k, :size])
        own = {"x_kind": kind[0, k, :size], "y_kind": kind[1, k, :size]}
        alone.append(jm.solve_alignment(a[0], b[0], **own))
    mask = np.arange(n) < np.array(sizes)[:, None]
    res = jm.solve_alignment(x, y, x_mask=mask, y_mask=mask, x_kind=kind[0], y_kind=kind[1])
    assert (res.status == jm.Status.OPTIMAL).all()
    for k, size in enumerate(sizes):
        np.testing.assert_allclose(res.value[k], alone[k].value, rtol=1e-6)
        np.testing.assert_allclose(res.bound[k], alone[k].bound, rtol=1e-6, atol=1e-9)
        assert (res.col4row[k, size:] == -1).all() and (res.row4col[k, size:] == -1).all()
        pairs = res.col4row[k, :size]
        assert (kind[0, k, :size] == kind[1, k][pairs]).all()


def test_kinds_that_do_not_go_together():
    res = jm.solve_alignment(np.eye(3), np.eye(3), x_kind=[1, 1, 2], y_kind=[1, 2, 2])
    assert res.status == jm.Status.INFEASIBLE and (res.col4row == -1).all() and np.isnan(res.rmsd)
    bad = np.eye(3)
    bad[1, 1] = np.nan
    assert jm.solve_alignment(bad, np.eye(3)).status == jm.Status.INVALID_COST
    good = jm.solve_alignment(np.eye(3), np.eye(3), weights=[1, 2, 3]).status
    assert good == jm.Status.OPTIMAL
    for weights in ([1, -1, 1], [1, np.nan, 1]):
        res = jm.solve_alignment(np.eye(3), np.eye(3), weights=weights)
        assert res.status == jm.Status.INVALID_COST and np.isnan(res.value)


@pytest.mark.parametrize("within", ["any", "kept"])
def test_groups_stay_together(within):
    """Chains of three and of two points: all chains of one size, and orders within, by force."""
    rng = np.random.default_rng(14)
    groups = np.array([0, 0, 0, 1, 1, 2, 2])
    x, y = rng.normal(size=(2, 7, 3))
    res = jm.solve_alignment(x, y, groups=(groups, groups[::-1]), within=within, starts=300)
    back = groups[::-1]
    best = np.inf
    for cols in permutations(range(7)):
        to = back[list(cols)]
        together = all(len(set(to[groups == g])) == 1 for g in range(3))
        kept = within == "any" or all(
            (np.diff(np.array(cols)[groups == g]) > 0).all() for g in range(3)
        )
        if together and kept:
            best = min(best, kabsch(x, y[list(cols)], np.ones(7), "rigid", False))
    assert np.isclose(res.value, best, rtol=1e-9)
    assert all(len(set(back[res.col4row[groups == g]])) == 1 for g in range(3))


def test_points_of_a_crystal():
    """The nearest images, in a cell that is not rectangular, by all shifts."""
    rng = np.random.default_rng(15)
    cell = np.array([[4.0, 0, 0], [1.5, 3.5, 0], [0.5, 0.7, 5.0]])
    x = rng.random((10, 3)) @ cell
    y = (x + [3.1, 0.4, 2.0])[::-1] + 0.02 * rng.normal(size=(10, 3))
    y = (np.linalg.solve(cell.T, y.T).T % 1) @ cell
    res = jm.solve_alignment(x, y, cell=cell, motion="translation")
    assert res.rmsd < 0.06 and (res.col4row == np.arange(10)[::-1]).all()
    assert res.bound <= res.value
    fixed = jm.solve_alignment(x, y, cell=cell, motion=None)
    shifts = np.array([*np.ndindex(5, 5, 5)]) - 2
    away = x[:, None, None] - y[:, None] - shifts @ cell
    cost = (away**2).sum(-1).min(-1)
    assert np.isclose(fixed.value, cost[linear_sum_assignment(cost)].sum(), rtol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
def test_a_proof_by_branch_and_bound(d):
    """From one bad start: the search finds the optimum, and its bound is below and near it."""
    rng = np.random.default_rng(16)
    x, y = rng.normal(size=(2, 4, 6, d))
    kinds = np.arange(6) % 2
    for motion, kind in (("rigid", None), ("rotation", (kinds, kinds[::-1]))):
        given = {} if kind is None else {"x_kind": kind[0], "y_kind": kind[1]}
        res = jm.solve_alignment(x, y, motion=motion, starts=1, prove=True, **given)
        best = [truth(a, b, motion, kinds=kind) for a, b in zip(x, y, strict=True)]
        np.testing.assert_allclose(res.value, best, rtol=1e-9)
        assert (
            res.proved.all()
            and (res.bound <= best).all()
            and (res.bound >= 0.989 * np.array(best)).all()
        )
        away = np.einsum("bij,bnj->bni", res.rotation, x) + res.translation[:, None]
        away -= np.take_along_axis(y, res.col4row[..., None], 1)
        np.testing.assert_allclose((away**2).sum((1, 2)), best, rtol=1e-9)
    mirrored = jm.solve_alignment(x, y, starts=1, reflections=True, prove=True)
    best = [truth(a, b, "rigid", mirror=True) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(mirrored.value, best, rtol=1e-9)


def test_masks_and_weights_broadcast_in_proofs():
    x, y, _ = hidden(np.random.default_rng(20), 2, 5, 0.2)
    plain = jm.solve_alignment(x, y, prove=True)
    given = {"x_mask": True, "y_mask": [True], "weights": 2.0}
    res = jm.solve_alignment(x, y, prove=True, **given)
    np.testing.assert_allclose(res.value, 2 * plain.value, rtol=1e-9)
    np.testing.assert_array_equal(res.col4row, plain.col4row)
    mask = np.array([[True] * 5, [False] * 5])
    res = jm.solve_alignment(x, y, prove=True, x_mask=mask, y_mask=mask)
    assert res.proved.all() and (res.col4row[1] == -1).all() and res.value[1] == 0


def test_far_from_the_origin_in_float32():
    """Points are centred first, so that distances of 1 beside 3000 keep their digits."""
    rng = np.random.default_rng(21)
    x, y = rng.normal(size=(2, 4, 12, 3)).astype(np.float32)
    near = jm.solve_alignment(x, y)
    far = jm.solve_alignment(x + np.float32(512), y - np.float32(3072))
    np.testing.assert_allclose(far.value, near.value, rtol=1e-2)
    assert not far.proved.any() and (far.agree < 64).all()
    moved = np.einsum("bij,bnj->bni", far.rotation, x + 512) + far.translation[:, None]
    away = moved - np.take_along_axis(y - 3072, far.col4row[..., None], 1)
    np.testing.assert_allclose((away**2).sum((1, 2)), near.value, rtol=0.05)


def test_more_points_than_partners_by_masks():
    mask = np.arange(4) < 2
    res = jm.solve_alignment(np.ones((4, 3)), np.ones((4, 3)), y_mask=mask)
    assert res.status == jm.Status.INFEASIBLE


def test_translations_of_padded_points_start_everywhere():
    rng = np.random.default_rng(22)
    x, y = rng.random((4, 2)), rng.random((7, 2))
    plain = jm.solve_alignment(x, y, motion="translation")
    padded = np.pad(x, ((0, 3), (0, 0)), constant_values=np.nan)
    res = jm.solve_alignment(padded, y, motion="translation", x_mask=np.arange(7) < 4)
    np.testing.assert_allclose(res.value, plain.value, rtol=1e-6)
    assert jm.solve_alignment(x, y[:4], motion="translation").values.shape == (1,)


def test_a_skewed_cell_is_reduced():
    res = jm.solve_alignment(
        np.zeros((1, 2)), np.array([[9.5, 0.5]]), cell=[[1.0, 0.0], [7.0, 1.0]], motion=None
    )
    assert np.isclose(res.value, 0.5)


def test_a_proof_that_runs_out_of_time():
    x, y, _ = hidden(np.random.default_rng(17), 1, 25, 0.3)
    res = jm.solve_alignment(x[0], y[0], prove=True, tolerance=1e-9, time_limit=0.5)
    assert not res.proved and 0 < res.bound < res.value
    loose = jm.solve_alignment(jnp.asarray(x[0]), jnp.asarray(y[0]), prove=True, tolerance=0.1)
    assert loose.proved and isinstance(loose.value, jax.Array)


def test_gradients_by_finite_differences():
    rng = np.random.default_rng(18)
    x, y, _ = hidden(rng, 1, 8, 0.3)
    w = rng.random(8) + 0.5
    with jax.enable_x64(True):
        solve = jax.jit(lambda x, y, w: jm.solve_alignment(x, y, weights=w, starts=16))
        for field in ("value", "rmsd"):
            given = [jnp.asarray(z) for z in (x[0], y[0], w)]
            slopes = jax.grad(lambda *z: getattr(solve(*z), field), (0, 1, 2))(*given)  # noqa: B023
            for k, slope in enumerate(slopes):
                step = 1e-5 * rng.normal(size=slope.shape)
                ends = [[*given[:k], given[k] + s * step, *given[k + 1 :]] for s in (1, -1)]
                rise = float(getattr(solve(*ends[0]), field) - getattr(solve(*ends[1]), field))
                np.testing.assert_allclose(2 * (slope * step).sum(), rise, rtol=1e-5)
        same = jax.grad(lambda x: jm.solve_alignment(x, given[0], starts=4).rmsd)(given[0])
        assert np.isfinite(same).all()


def test_in_programs_and_with_keys():
    rng = np.random.default_rng(19)
    x, y, _ = hidden(rng, 3, 9, 0.1)
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    res = jm.solve_alignment(x, y)
    again = jax.jit(jm.solve_alignment)(x, y)
    mapped = jax.vmap(jm.solve_alignment)(x, y)
    for other in (again, mapped):
        np.testing.assert_array_equal(other.col4row, res.col4row)
        np.testing.assert_allclose(other.value, res.value, rtol=1e-5)
    random = partial(jm.solve_alignment, x, y, starts=20)
    first, second = (random(key=jax.random.key(3)) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    assert (random(key=jax.random.key(4)).values != first.values).any()
    given = jm.solve_alignment(x[0], y[0], initial=turns(5, 2), starts=5)
    assert given.values.shape == (5,)


@pytest.mark.parametrize(
    "how, words",
    [
        ({"motion": "affine"}, ["`motion`", "'affine'"]),
        ({"cell": np.eye(3)}, ["`cell`", "'rigid'"]),
        ({"x_kind": [1, 2, 3]}, ["`x_kind`", "`y_kind`"]),
        ({"starts": 0}, ["`starts`"]),
        ({"groups": ([0, 1], [0, 1, 2])}, ["`groups[0]`", "3"]),
        ({"weights": np.ones(4)}, ["`weights`"]),
        ({"prove": True, "motion": "translation"}, ["`prove`", "'translation'"]),
        ({"prove": True, "groups": ([0, 1, 2], [0, 1, 2])}, ["`prove`", "`groups`"]),
        ({"initial": np.eye(2)}, ["`initial`", "3, 3"]),
        ({"tolerance": np.nan}, ["`tolerance`", "nan"]),
        ({"groups": ([0, 1, 1], [0, 1, 1]), "x_mask": True}, ["`groups`", "`x_mask`"]),
        ({"cell": np.eye(2), "motion": None}, ["`cell`", "3, 3"]),
    ],
)
def test_options_that_do_not_fit(how, words):
    with pytest.raises(ValueError) as error:
        jm.solve_alignment(np.eye(3), np.eye(3), **how)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="more points than"):
        jm.solve_alignment(np.ones((4, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="batch dimensions"):
        jm.solve_alignment(np.ones((2, 3, 3)), np.ones((3, 3, 3)))
    with pytest.raises(TypeError, match="known before"):
        jax.jit(lambda g: jm.solve_alignment(np.eye(3), np.eye(3), groups=(g, g)))(jnp.arange(3))
    with pytest.raises(TypeError, match="outside of `jit`"):
        jax.jit(partial(jm.solve_alignment, prove=True))(np.eye(3), np.eye(3))

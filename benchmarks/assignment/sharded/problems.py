"""Large problems made on the devices of a mesh, and proofs of their optima that trust no solver.

Costs are a pure function of (seed, n, row, column), so that every division is of the same problem.
Everything runs under x64: integers are exact and bounds are sums of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmatch as jm
from benchmarks.assignment.families import POINTS
from benchmarks.common.costs import below, splitmix64


AXIS = "x"
# The greatest of whole costs, uniform from 0 on.
INTEGERS: dict[str, Callable[[int], int]] = {
    "10n": lambda n: 10 * n,
    "n/10": lambda n: n // 10,
    "n/100": lambda n: n // 100,
    "0 or 1": lambda n: 1,
    "all equal": lambda n: 0,
    "eight rows": lambda n: 10 * n,
}
_BLOCK_BYTES = 2**28  # of float64 that a check holds at a time, on each device


def mesh_of(count: int) -> Mesh:
    return jax.make_mesh((count,), (AXIS,), devices=jax.devices()[:count])


def padded(n: int, count: int) -> int:
    """`n`, or a little more, so that each of `count` devices has as many rows."""
    return -(-n // count) * count


def make_costs(n: int, kind: str, mesh: Mesh, seed: int = 1) -> jax.Array:
    """`[padded(n), padded(n)]` by rows over the mesh, each part made where it stays.

    `kind`: `"uniform"`, float32 on [0, 1) in steps of 2^-24, or int32 as `INTEGERS` says: `"10n"`
    as in Date and Nagi 2016, the same as those of `uniform_integers`; of `"eight rows"`
    every eighth is the same; or float32 squared distances of points, a name of `POINTS`. What lies
    outside of n by n is to be masked.
    """
    if kind in POINTS:
        return _distances(*POINTS[kind](n, seed), mesh)
    side = padded(n, mesh.size)
    rows = side // mesh.size

    def local() -> jax.Array:  # one fused loop: nothing of this size but the result
        first = lax.axis_index(AXIS).astype(jnp.uint64) * rows
        i, j = (lax.broadcasted_iota(jnp.uint64, (rows, side), d) for d in (0, 1))
        row = (first + i) % 8 if kind == "eight rows" else first + i
        bits = splitmix64(row * n + j, seed)
        if kind in INTEGERS:
            return below(bits, INTEGERS[kind](n) + 1).astype(jnp.int32)
        return (bits >> jnp.uint64(40)).astype(jnp.float32) * jnp.float32(2**-24)

    make = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(), out_specs=P(AXIS)))
    with jax.enable_x64(True):
        return jax.block_until_ready(make())


def _distances(x: np.ndarray, y: np.ndarray, mesh: Mesh) -> jax.Array:
    """Squared distances in float64, rounded to float32."""
    more = ((0, padded(len(x), mesh.size) - len(x)), (0, 0))
    x, y = np.pad(x, more), np.pad(y, more)

    def local(x: jax.Array, y: jax.Array) -> jax.Array:
        parts = ((x[:, k, None] - y[None, :, k]) ** 2 for k in range(x.shape[1]))
        return sum(parts, jnp.float64(0)).astype(jnp.float32)

    make = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P(AXIS), P()), out_specs=P(AXIS)))
    with jax.enable_x64(True):
        x, y = (jax.device_put(a, NamedSharding(mesh, s)) for a, s in ((x, P(AXIS)), (y, P())))
        return jax.block_until_ready(make(x, y))


def make_points(n: int, mesh: Mesh, dims: int = 2) -> tuple[jax.Array, jax.Array]:
    """Rows over the mesh and columns everywhere, uniform in the unit square."""
    x, y = np.random.default_rng(n).random((2, n, dims), np.float32)
    rows = NamedSharding(mesh, P(AXIS))
    return jax.device_put(x, rows), jax.device_put(y, NamedSharding(mesh, P()))


# ---------------------------------------------------------------------------------------------
# Proofs


def _bounds(
    costs_of: Callable[[jax.Array, int], jax.Array], rows: int, n: int, v: jax.Array, width: int
) -> jax.Array:
    """The contribution of each local row to a bound: its least reduced cost, by blocks of rows."""
    size = min(rows, max(1, _BLOCK_BYTES // (8 * width)))
    real = jnp.arange(width) < n
    most = jnp.iinfo(v.dtype).max if jnp.issubdtype(v.dtype, jnp.integer) else jnp.inf

    def block(k: int, found: jax.Array) -> jax.Array:
        at = jnp.minimum(k * size, rows - size)  # the last block may begin in the one before
        reduced = costs_of(at, size).astype(v.dtype) - v[None]
        least = jnp.where(real[None], reduced, jnp.asarray(most, v.dtype)).min(1)
        return lax.dynamic_update_slice_in_dim(found, least, at, 0)

    return lax.fori_loop(0, -(-rows // size), block, jnp.zeros(rows, v.dtype))


def _totals(
    least: jax.Array, matched: jax.Array, u: jax.Array, v: jax.Array, n: int, rows: int
) -> tuple[jax.Array, ...]:
    """Value, bound, and how far the row duals are from those that the column duals imply."""
    real = lax.axis_index(AXIS) * len(least) + jnp.arange(len(least), dtype=jnp.int32) < rows
    value, bound = (lax.psum(jnp.where(real, x, 0).sum(), AXIS) for x in (matched, least))
    bound += jnp.where(jnp.arange(len(v)) < n, v, 0).sum()
    off = lax.pmax(jnp.where(real, jnp.abs(least - u), 0).max(), AXIS)
    return value, bound, off


@partial(jax.jit, static_argnames=("mesh", "n", "real_rows"))
def _held_against_duals(
    problem: tuple[jax.Array, ...],
    u: jax.Array,
    v: jax.Array,
    col4row: jax.Array,
    *,
    mesh: Mesh,
    n: int,
    real_rows: int,
) -> tuple[jax.Array, ...]:
    """For costs `(cost,)` by rows over the mesh, or points `(x, y)` with x by rows."""

    def costs(cost: jax.Array, u: jax.Array, v: jax.Array, col4row: jax.Array) -> Any:
        least = _bounds(partial(lax.dynamic_slice_in_dim, cost), len(cost), n, v, cost.shape[1])
        matched = jnp.take_along_axis(cost, jnp.maximum(col4row, 0)[:, None], 1)[:, 0]
        return _totals(least, matched.astype(v.dtype), u, v, n, real_rows)

    def points(x: jax.Array, y: jax.Array, u: jax.Array, v: jax.Array, col4row: jax.Array) -> Any:
        x, y = x.astype(v.dtype), y.astype(v.dtype)

        def squared(a: jax.Array, b: jax.Array) -> jax.Array:
            return sum(((a[..., k] - b[..., k]) ** 2 for k in range(a.shape[-1])), start=0.0 * v[0])

        def rows_at(at: jax.Array, size: int) -> jax.Array:
            return squared(lax.dynamic_slice_in_dim(x, at, size)[:, None], y[None])

        least = _bounds(rows_at, len(x), n, v, len(y))
        return _totals(least, squared(x, y[jnp.maximum(col4row, 0)]), u, v, n, real_rows)

    of_problem = (P(AXIS),) if len(problem) == 1 else (P(AXIS), P())
    check = jax.shard_map(
        costs if len(problem) == 1 else points,
        mesh=mesh,
        in_specs=(*of_problem, P(AXIS), P(), P(AXIS)),
        out_specs=P(),
        check_vma=False,
    )
    return check(*problem, u, v, col4row)


def prove(
    problem: tuple[jax.Array, ...],
    res: jm.Assignment,
    n: int,
    mesh: Mesh,
    real_rows: int | None = None,
) -> dict[str, Any]:
    """Value and proved gap of a result for costs `(cost,)` or points `(x, y)`; asserts its claims.

    `n` columns are real, and `real_rows` rows, by default as many. All costs are held against the
    column duals: any duals prove a bound, if none is positive where columns may stay. The gap of
    integers is exactly 0. That of float32 costs is what the solver says, up to the rounding of the
    sums made here. The costs of points are taken in float64, which a solver need not do: their gap
    is only reported.
    """
    assert int(res.status) == jm.Status.OPTIMAL, int(res.status)
    col4row, row4col = np.asarray(res.col4row), np.asarray(res.row4col)
    some = n if real_rows is None else real_rows
    taken = np.sort(col4row[:some])
    assert (np.diff(taken) > 0).all() and 0 <= taken[0] <= taken[-1] < n, "a column twice"
    assert (row4col[col4row[:some]] == np.arange(some)).all()
    assert (col4row[some:] == -1).all() and (row4col >= 0).sum() == some

    integral = len(problem) == 1 and problem[0].dtype == jnp.int32
    duals = [np.asarray(x) for x in (res.row_dual, res.col_dual)]
    assert all(x.dtype == np.float64 and np.isfinite(x).all() for x in duals)
    largest = max(np.abs(x).max() for x in duals)
    assert some == n or (duals[1][:n] <= 0).all()
    if integral:
        assert all((x == np.round(x)).all() for x in duals)
        duals = [x.astype(np.int64) for x in duals]
    rows = NamedSharding(mesh, P(AXIS))
    with jax.enable_x64(True):
        u, col4row = (jax.device_put(x, rows) for x in (duals[0], col4row))
        v = jax.device_put(duals[1], NamedSharding(mesh, P()))
        held = _held_against_duals(problem, u, v, col4row, mesh=mesh, n=n, real_rows=some)
        value, bound, off = (x.item() for x in held)
    gap, claimed = value - bound, float(res.gap)
    rounding = 0.0 if integral else 8 * n * np.finfo(np.float64).eps * max(1.0, largest)
    if len(problem) == 1:
        assert -rounding <= gap <= claimed + rounding, (value, bound, claimed)
        assert abs(float(res.cost) - value) <= rounding, (float(res.cost), value)
        assert off <= claimed + rounding, off
    return {"value": value, "proved_gap": gap, "gap": claimed}

"""The best rotation of paired points, in closed form.

Horn, *Closed-form solution of absolute orientation using unit quaternions*, J. Opt. Soc. Am. A 4
(1987), in three dimensions; Kabsch, Acta Cryst. A 32 (1976), in others.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.typing import Array, Float


_SWEEPS = 6  # of Jacobi's method for matrices of 4 x 4; five suffice in float64


def best_rotation(h: Float[Array, "... d d"], reflections: bool) -> Float[Array, "... d d"]:
    """The rotation R that maximises trace(R h), where h is the sum of x_i y_iᵀ over pairs.

    With `reflections`, the best orthogonal matrix.
    """
    rotation, trace = _proper(h)
    if not reflections:
        return rotation
    d = h.shape[-1]
    mirror = jnp.ones((d,), h.dtype).at[0].set(-1)
    other, more = _proper(mirror[:, None] * h)
    return jnp.where((more > trace)[..., None, None], other * mirror, rotation)


def _proper(h: Float[Array, "... d d"]) -> tuple[Float[Array, "... d d"], Float[Array, "..."]]:
    """The best rotation, and trace(R h)."""
    d = h.shape[-1]
    if d == 1:
        return jnp.ones_like(h), h[..., 0, 0]
    if d == 2:
        return _in_the_plane(h)
    if d == 3:
        quaternion, trace = _largest(_horn(h))
        return as_matrix(quaternion), trace
    u, s, vt = jnp.linalg.svd(h, full_matrices=False)
    sign = jnp.sign(jnp.linalg.det(u) * jnp.linalg.det(vt))
    last = jnp.ones_like(s).at[..., -1].set(jnp.where(sign < 0, -1, 1))
    rotation = jnp.swapaxes(vt, -1, -2) @ (last[..., :, None] * jnp.swapaxes(u, -1, -2))
    return rotation, (s * last).sum(-1)


def _in_the_plane(h: Array) -> tuple[Array, Array]:
    cos, sin = h[..., 0, 0] + h[..., 1, 1], h[..., 0, 1] - h[..., 1, 0]
    length = jnp.hypot(cos, sin)
    safe = jnp.where(length > 0, length, 1)
    cos, sin = jnp.where(length > 0, cos / safe, 1), sin / safe
    rows = jnp.stack([cos, -sin], -1), jnp.stack([sin, cos], -1)
    return jnp.stack(rows, -2), length


def _horn(h: Array) -> list[list[Array]]:
    """The symmetric matrix whose quadratic form of a quaternion is trace(R h)."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = ([h[..., i, j] for j in range(3)] for i in range(3))
    return [
        [xx + yy + zz, yz - zy, zx - xz, xy - yx],
        [yz - zy, xx - yy - zz, xy + yx, zx + xz],
        [zx - xz, xy + yx, yy - xx - zz, yz + zy],
        [xy - yx, zx + xz, yz + zy, zz - xx - yy],
    ]


def _largest(matrix: list[list[Array]]) -> tuple[Float[Array, "... 4"], Float[Array, "..."]]:
    """The unit eigenvector of the largest eigenvalue, and the eigenvalue, by Jacobi's method.

    All operations are on single numbers of each problem, which XLA fuses over the batch.
    """
    n = len(matrix)
    one, zero = jnp.ones_like(matrix[0][0]), jnp.zeros_like(matrix[0][0])
    vectors = [[one if i == j else zero for j in range(n)] for i in range(n)]

    def sweep(_: int, state: tuple[list[list[Array]], list[list[Array]]]) -> tuple:
        a, v = [list(row) for row in state[0]], [list(row) for row in state[1]]
        for p in range(n):
            for q in range(p + 1, n):
                cos, sin = _turn(a[p][p], a[q][q], a[p][q])
                for x in (*a, *v):  # columns p and q
                    x[p], x[q] = cos * x[p] - sin * x[q], sin * x[p] + cos * x[q]
                a[p], a[q] = (
                    [cos * x - sin * y for x, y in zip(a[p], a[q], strict=True)],
                    [sin * x + cos * y for x, y in zip(a[p], a[q], strict=True)],
                )
        return a, v

    a, v = lax.fori_loop(0, _SWEEPS, sweep, (matrix, vectors))
    values = jnp.stack([a[k][k] for k in range(n)], -1)
    best = values.argmax(-1)[..., None]
    columns = jnp.stack([jnp.stack(row, -1) for row in v], -2)
    vector = jnp.take_along_axis(columns, best[..., None], -1)[..., 0]
    vector = vector / jnp.linalg.norm(vector, axis=-1, keepdims=True)
    return vector, values.max(-1)


def _turn(app: Array, aqq: Array, apq: Array) -> tuple[Array, Array]:
    """Cosine and sine of the turn that makes the entry (p, q) zero."""
    small = jnp.abs(apq) <= jnp.finfo(apq.dtype).tiny
    theta = (aqq - app) / (2 * jnp.where(small, 1, apq))
    tan = jnp.where(theta < 0, -1, 1) / (jnp.abs(theta) + jnp.hypot(theta, jnp.ones_like(theta)))
    tan = jnp.where(small, 0, tan)
    cos = lax.rsqrt(1 + tan * tan)
    return cos, tan * cos


def as_matrix(quaternion: Float[Array, "... 4"]) -> Float[Array, "... 3 3"]:
    """The rotation of a unit quaternion (w, x, y, z)."""
    w, x, y, z = (quaternion[..., k] for k in range(4))
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)

"""Wasserstein distances on a line, of samples and of histograms, by sorting without a solver."""

from __future__ import annotations

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import last_iota, module_of, same_rank
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num
from jaxmatch.losses._weights import Side, as_floats, broadcast_batches


@unchecked
@outside_of_jit("x", "y", "x_weight", "y_weight", by_numpy=True)
def wasserstein_1d(
    x: Float[Array, "... n"],
    y: Float[Array, "... m"],
    x_weight: ArrayLike | None = None,
    y_weight: ArrayLike | None = None,
    *,
    p: float = 1,
) -> Float[Array, "..."]:
    """The Wasserstein distance `W_p^p` of samples on a line, by sorting.

    It is the integral of `|Q_x(t) − Q_y(t)|^p` over t from 0 to 1, where Q_x and Q_y are the
    quantile functions. For p = 1 this is `scipy.stats.wasserstein_distance`. For p > 1 it is the
    p-th power of the distance, as in `ot.wasserstein_1d`; take the p-th root for a metric.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> x, y = jnp.array([3.0, 0.0, 1.0]), jnp.array([5.0, 6.0, 8.0])
    >>> jm.losses.wasserstein_1d(x, y)
    Array(5., dtype=float32)
    >>> jm.losses.wasserstein_1d(x, y, jnp.array([0.0, 0.0, 1.0]), p=2)
    Array(30., dtype=float32)

    **Arguments:**

    - `x`, `y`: `[..., n]` and `[..., m]`, in any order; leading axes broadcast. Half precision and
      integers of 32 bits are computed in float32.
    - `x_weight`, `y_weight`: `[..., n]` and `[..., m]`, not negative; each is divided by its sum.
      Default: all samples weigh the same. A sample of weight 0 is ignored, but must be finite.
    - `p`: at least 1.

    **Returns:**

    `[...]`, in the promoted dtype. NaN, with gradient 0, if both sides have samples at the same
    infinity, if an infinite sample has weight 0, if a sample is NaN, or if weights are not finite,
    negative, or sum to 0. Otherwise +inf, with gradient 0, if a sample is infinite.

    **Gradient:** with respect to samples and weights, by automatic differentiation. Gradient
    descent pulls together samples that are paired by their quantiles.

    **Time and memory:** O((n + m) log(n + m)) and O(n + m). No solver.

    **Raises:** `ValueError` for shapes that do not fit, no samples, and p below 1.
    """
    xp = module_of(x, y, x_weight, y_weight)
    x, y = as_floats(x, y, xp=xp)
    _check_power(p)
    if x.ndim < 1 or y.ndim < 1 or not (x.shape[-1] and y.shape[-1]):
        raise ValueError(
            "`x` must have shape [..., n] and `y` [..., m], with n, m >= 1, got "
            f"{x.shape} and {y.shape}."
        )
    x_side = Side("x", x.shape[-1], x_weight, xp=xp)
    y_side = Side("y", y.shape[-1], y_weight, xp=xp)
    lead = (x.shape[:-1], y.shape[:-1])
    batch = broadcast_batches(*lead, *x_side.batches, *y_side.batches)
    (a, a_valid), (b, b_valid) = x_side.masses(), y_side.masses()
    sound = xp.broadcast_to(a_valid, batch) & xp.broadcast_to(b_valid, batch)
    finite = xp.broadcast_to(_finite(x), batch) & xp.broadcast_to(_finite(y), batch)
    far = _far_apart(_expand(x, batch), _expand(a, batch), _expand(y, batch), _expand(b, batch))
    x, y = same_rank(*(xp.where(_finite(z)[..., None], z, 0) for z in (x, y)))
    if x_side.weight is None and y_side.weight is None and x.shape[-1] == y.shape[-1]:
        value = _power(xp.sort(x, -1) - xp.sort(y, -1), p).mean(-1)
    else:
        x, y, a, b = (_expand(z, batch).astype(x.dtype) for z in (x, y, a, b))
        value = _quantile_integral(x, a, y, b, p)
    # `far` may be float64, because NumPy's `where` returns float64 for two Python floats.
    return xp.where(sound, xp.where(finite, value, far.astype(value.dtype)), xp.nan)


@unchecked
@outside_of_jit("a", "b", "positions", by_numpy=True)
def histogram_distance(
    a: Float[Array, "... k"],
    b: Float[Array, "... k"],
    positions: ArrayLike | None = None,
    *,
    p: float = 1,
) -> Float[Array, "..."]:
    """The Wasserstein distance `W_p^p` of two histograms on the same bins of a line.

    For p = 1 it is the area between the cumulative histograms, `Σ |A_k − B_k| (t_{k+1} − t_k)`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> a, b = jnp.array([1.0, 0.0, 0.0, 1.0]), jnp.array([0.0, 2.0, 0.0, 0.0])
    >>> jm.losses.histogram_distance(a, b)
    Array(1.5, dtype=float32)
    >>> jm.losses.histogram_distance(a, b, jnp.array([0.0, 0.5, 1.0, 1.5]))
    Array(0.75, dtype=float32)

    For bins in a plane, or other costs, use [`solve_transport`][jaxmatch.solve_transport] with the
    costs between bins.

    **Arguments:**

    - `a`, `b`: `[..., k]`, not negative; leading axes broadcast. Each is divided by its sum. Half
      precision and integers of 32 bits are computed in float32.
    - `positions`: `[k]` or `[..., k]`, the positions of the bins, in any order. Default: 0, 1, 2,
      ...
    - `p`: at least 1; above 1 the result is the p-th power of the distance.

    **Returns:**

    `[...]`, in the promoted dtype. NaN, with gradient 0, for entries that are not finite,
    histograms with a negative entry, and histograms that sum to 0.

    **Gradient:** with respect to both histograms and to `positions`, by automatic differentiation.

    **Time and memory:** O(k); O(k log k) with `positions` or p > 1. No solver.

    **Raises:** `ValueError` for shapes that do not fit, no bins, and p below 1.
    """
    xp = module_of(a, b, positions)
    a, b = as_floats(a, b, xp=xp)
    _check_power(p)
    k = a.shape[-1] if a.ndim else 0
    if not k or b.ndim < 1 or b.shape[-1] != k:
        raise ValueError(
            f"`a` and `b` must have shape [..., k], with k >= 1, got {a.shape} and {b.shape}."
        )
    if positions is None:
        t = xp.arange(k, dtype=a.dtype)
    else:
        t = xp.asarray(positions).astype(a.dtype)
        if t.ndim < 1 or t.shape[-1] != k:
            raise ValueError(
                f"`positions` must have shape [..., {k}], one for each bin, got {t.shape}."
            )
    if p != 1:
        return wasserstein_1d(t, t, a, b, p=p)
    batch = broadcast_batches(t.shape[:-1], a.shape[:-1], b.shape[:-1])
    (a, a_valid), (b, b_valid) = (
        Side(name, k, z, xp=xp).probabilities() for name, z in (("a", a), ("b", b))
    )
    valid = [xp.broadcast_to(z, batch) for z in (_finite(t), a_valid, b_valid)]
    a, b, t = (_expand(z, batch) for z in (a, b, xp.where(_finite(t)[..., None], t, 0)))
    excess = a - b
    if positions is not None:
        order = xp.argsort(t, -1)
        excess, t = (xp.take_along_axis(x, order, -1) for x in (excess, t))
    value = (_magnitude(xp.cumsum(excess, -1)[..., :-1]) * xp.diff(t, axis=-1)).sum(-1)
    return xp.where(valid[0] & valid[1] & valid[2], value, xp.nan)


def _check_power(p: float) -> None:
    if not p >= 1:
        raise ValueError(f"`p` must be at least 1, got {p}.")


def _expand(x: Array, batch: tuple[int, ...]) -> Array:
    return module_of(x).broadcast_to(x, (*batch, x.shape[-1]))


def _finite(x: Num[Array, "... n"]) -> Bool[Array, "..."]:
    return module_of(x).isfinite(x).all(-1)


def _far_apart(x: Array, a: Array, y: Array, b: Array) -> Float[Array, "..."]:
    """The distance if a sample is not finite: +inf, or NaN where it is undefined.

    It is undefined if a sample is NaN, if an infinite sample has weight 0, or if both sides have
    samples at the same infinity.
    """
    xp = module_of(x, a, y, b)
    undefined = xp.zeros(x.shape[:-1], bool)
    for z, weight in ((x, a), (y, b)):
        undefined |= (xp.isnan(z) | (xp.isinf(z) & (weight == 0))).any(-1)
    for limit in (-xp.inf, xp.inf):
        undefined |= (x == limit).any(-1) & (y == limit).any(-1)
    return xp.where(undefined, xp.nan, xp.inf)


def _magnitude(x: Array) -> Array:
    """|x|, with derivative 0 at 0. (The derivative of JAX's `abs` is 1 there.)"""
    xp = module_of(x)
    return xp.where(x == 0, 0, xp.abs(x))


def _power(difference: Array, p: float) -> Array:
    if p == 2:
        return difference**2
    xp, distance = module_of(difference), _magnitude(difference)
    if p == 1:
        return distance
    apart = distance != 0
    return xp.where(apart, xp.where(apart, distance, 1) ** p, 0)


def _quantile_integral(x: Array, a: Array, y: Array, b: Array, p: float) -> Float[Array, "..."]:
    """The integral of |Q_x(t) − Q_y(t)|^p over t, for weights `a` and `b` of any sum."""
    xp = module_of(x, a, y, b)

    def steps(values: Array, weight: Array) -> tuple[Array, Array]:
        order = xp.argsort(values, -1)
        values, weight = (xp.take_along_axis(z, order, -1) for z in (values, weight))
        level = xp.cumsum(weight, -1)
        return values, level / level[..., -1:]  # ends at 1 exactly

    (x, x_level), (y, y_level) = steps(x, a), steps(y, b)
    n, m = x.shape[-1], y.shape[-1]
    level = xp.concatenate([x_level, y_level], -1)
    order = xp.argsort(level, -1, stable=True)
    level = xp.take_along_axis(level, order, -1)
    width = xp.diff(level, axis=-1, prepend=xp.zeros_like(level[..., :1]))
    # On the interval that ends at a level, the quantile of x is the sorted sample whose index is
    # the number of earlier levels of x.
    of_x = order < n
    before = xp.cumsum(of_x, -1, dtype=xp.int32) - of_x.astype(xp.int32)
    at_x = xp.minimum(before, n - 1)
    at_y = xp.minimum(last_iota(xp.int32, n + m, level.ndim, xp) - before, m - 1)
    apart = xp.take_along_axis(x, at_x, -1) - xp.take_along_axis(y, at_y, -1)
    return (width * _power(apart, p)).sum(-1)

"""The arithmetic of checks: sums without rounding errors, or with bounds on these errors.

It shares no code with the solvers. Functions take NumPy arrays (outside of a trace) or JAX arrays,
and compute with the module of their arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.promotion import last_iota
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


T = TypeVar("T")


# A number as the unevaluated sum of a float and a small rest. The rest is None if it is always 0.
Pair = tuple[Array, Array | None]
# A float, a rest, and a bound on the error of their sum, see `two_float_sum`.
Triple = tuple[Array, Array, Array]


# ---------------------------------------------------------------------------------------------
# NumPy or JAX


def module_of(x: Any) -> Any:
    """The array module, NumPy or `jax.numpy`, of an array."""
    return np if isinstance(x, (np.ndarray, np.generic)) else jnp


def proof_float(x: Any) -> np.dtype:
    """The float dtype of proofs about the array x: for NumPy arrays always float64."""
    return np.dtype(np.float64) if module_of(x) is np else result_float()


def constant(tree: T) -> T:
    """The same pytree, but no gradient flows to its arrays."""
    if all(module_of(x) is np for x in jax.tree.leaves(tree)):
        return tree
    return lax.stop_gradient(tree)


def over_problems(one: Callable[..., T], batch: tuple[int, ...], *problems: Any) -> T:
    """Calls `one` for each problem of a batch: by `vmap`, or in NumPy one after another.

    All leaves of `problems` begin with the batch dimensions.
    """
    if module_of(jax.tree.leaves(problems)[0]) is jnp:
        for _ in batch:
            one = jax.vmap(one)
        return one(*problems)
    if not batch:
        return one(*problems)
    every = [jax.tree.map(lambda x: x[k], problems) for k in np.ndindex(*batch)]  # noqa: B023
    if not every:  # an empty batch: call `one` with zeros to learn the shapes of its results
        rank = len(batch)
        zeros = jax.tree.map(lambda x: np.zeros(x.shape[rank:], x.dtype), problems)
        return jax.tree.map(lambda x: np.empty((*batch, *x.shape), x.dtype), one(*zeros))
    results = [one(*problem) for problem in every]
    return jax.tree.map(lambda *x: np.reshape(np.stack(x), (*batch, *x[0].shape)), *results)


def add_at(size: int, index: Int[Array, " k"], x: Num[Array, " k"]) -> Num[Array, " size"]:
    """For each index from 0 to `size` − 1, the sum of the entries of x at it, in the dtype of x."""
    if module_of(x) is jnp:
        return jnp.zeros((size,), x.dtype).at[index].add(x)
    if x.dtype == np.float64:
        return np.bincount(index, x, size)  # type: ignore[return-value]
    sums = np.zeros(size, x.dtype)
    np.add.at(sums, index, x)
    return sums  # type: ignore[return-value]


def min_at(size: int, index: Int[Array, " k"], x: Float[Array, " k"]) -> Float[Array, " size"]:
    """For each index from 0 to `size` − 1, the least entry of x at it; +inf if there is none."""
    xp = module_of(x)
    return lowered_at(xp.full((size,), xp.inf, x.dtype), index, x)


def lowered_at(start: Array, index: Int[Array, " k"], x: Num[Array, " k"]) -> Array:
    """A copy of `start`, lowered at each index to the least entry of x there, if that is less."""
    if module_of(x) is jnp:
        return start.at[index].min(x)
    least: Any = start.copy()
    np.minimum.at(least, index, x)
    return least


def bits_of(x: Num[Array, "..."], dtype: Any) -> Num[Array, "..."]:
    """The bits of x as another dtype of the same size."""
    return x.view(dtype) if module_of(x) is np else lax.bitcast_convert_type(x, dtype)


def repeat(going: Callable[[T], Any], turn: Callable[[T], T], state: T, xp: Any) -> T:
    """Applies `turn` while `going(state)` holds: in a Python loop, or for JAX in a compiled one."""
    if xp is jnp:
        return lax.while_loop(going, turn, state)
    while going(state):
        state = turn(state)
    return state


def either(condition: Any, a: Callable[[], T], b: Callable[[], T]) -> T:
    """`a()` if the condition holds, else `b()`."""
    if module_of(condition) is jnp:
        return lax.cond(condition, a, b)
    return a() if condition else b()


def take(x: Num[Array, "... k"], index: Int[Array, "... l"]) -> Num[Array, "... l"]:
    """x at the indices; an arbitrary entry where an index is out of range."""
    xp = module_of(x)
    if x.shape[-1] == 0:
        return xp.zeros(index.shape, x.dtype)
    return xp.take_along_axis(x, index.clip(0, x.shape[-1] - 1), axis=-1)


def take_pairs(x: Num[Array, "... n m"], col4row: Int[Array, "... n"]) -> Num[Array, "... n"]:
    return take(x, col4row[..., None])[..., 0]


def is_inverse(there: Int[Array, "... k"], back: Int[Array, "... l"]) -> Bool[Array, "..."]:
    """Whether for each k, `there[k]` is −1, or an index with `back[there[k]] == k`."""
    xp = module_of(there)
    in_range = (there >= -1) & (there < back.shape[-1])
    if xp is np:
        entry = np.arange(there.shape[-1], dtype=back.dtype)
    else:
        entry = lax.broadcasted_iota(back.dtype, there.shape, there.ndim - 1)
    returns = take(back, there) == entry
    return (in_range & ((there < 0) | returns)).all(-1)


# ---------------------------------------------------------------------------------------------
# Error-free transformations


def exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """TwoSum (Møller, Knuth): the rounded sum a + b and its rounding error; 0 for infinite sums."""
    xp = module_of(a)
    s = a + b
    a_part = s - b
    b_part = s - a_part
    return s, xp.where(xp.isfinite(s), (a - a_part) + (b - b_part), 0)


def sum_up(*parts: Float[Array, "... k"]) -> Float[Array, "..."]:
    """An upper bound of the sum of all entries of `parts` along the last axis.

    It is less than two float spacings above the sum, unless the terms cancel so far that the sum is
    less than the square of the relative spacing times their magnitude. If `two_float_sum` is exact
    and the sum is a float, the bound equals the sum.
    """
    total, rest, lost = two_float_sum(module_of(parts[0]).concatenate(parts, -1))
    total, rest = exact_sum(total, add_up(rest, lost))
    return module_of(total).where(rest > 0, above(total), total)


def sum_down(*parts: Float[Array, "... k"]) -> Float[Array, "..."]:
    """A lower bound of the sum of all entries of `parts` along the last axis, see `sum_up`."""
    return 0 - sum_up(*(-x for x in parts))


def two_float_sum(x: Float[Array, "... k"]) -> Triple:
    """The sum along the last axis: a float, a rest, and a bound on the error of float + rest.

    The order in which the pairwise summation adds does not depend on the batch.
    """
    xp = module_of(x)
    if is_symbolic(x.shape[-1:]):
        return _sum_in_place(x)
    if x.shape[-1] == 0:
        x = xp.zeros((*x.shape[:-1], 1), x.dtype)
    state: Any = x, xp.zeros_like(x), xp.zeros_like(x)
    while state[0].shape[-1] > 1:
        odd = state[0].shape[-1] % 2
        if odd:
            state = tuple(xp.concatenate([y, xp.zeros_like(y[..., :1])], -1) for y in state)
        halves: Any = (tuple(y[..., k::2] for y in state) for k in (0, 1))
        state = _add_triples(*halves)
    total, rest, lost = (y[..., 0] for y in state)
    return total, rest, lost * (1 + 256 * float(xp.finfo(lost.dtype).eps))


def _add_triples(a: Triple, b: Triple) -> Triple:
    xp = module_of(a[0])
    total, error = exact_sum(a[0], b[0])
    rest, less = exact_sum(a[1], b[1])
    rest, least = exact_sum(rest, error)
    return total, rest, a[2] + b[2] + xp.abs(less) + xp.abs(least)


def _sum_in_place(x: Float[Array, "... k"]) -> Triple:
    """`two_float_sum` for symbolic k: adds in the same order, but all its arrays have length k."""
    place = last_iota(jnp.int32, x.shape[-1], x.ndim)

    def halve(state: tuple[Triple, Array]) -> tuple[Triple, Array]:
        triple, count = state

        def at(index: Array) -> Triple:
            there = index < count
            return tuple(jnp.where(there, take(y, index), 0) for y in triple)  # type: ignore[return-value]

        return _add_triples(at(2 * place), at(2 * place + 1)), (count + 1) // 2

    count = jnp.asarray(x.shape[-1], jnp.int32)
    triple = x, jnp.zeros_like(x), jnp.zeros_like(x)
    triple = lax.while_loop(lambda state: state[1] > 1, halve, (triple, count))[0]
    total, rest, lost = (jnp.where(count > 0, y[..., 0], 0) for y in triple)
    return total, rest, lost * (1 + 256 * float(jnp.finfo(lost.dtype).eps))


def add_up(a: Array, b: Array) -> Array:
    """An upper bound of a + b; equal to it where nothing is rounded."""
    s, error = exact_sum(a, b)
    return module_of(s).where(error > 0, above(s), s)


def above(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x increased by one or two float spacings."""
    if module_of(x) is np:
        return np.nextafter(x, np.asarray(np.inf, x.dtype))  # type: ignore[return-value]
    return x + jnp.abs(x) * jnp.finfo(x.dtype).eps


def split(x: Num[Array, "..."], negate: bool) -> Pair:
    """x, or −x if `negate`, as the nearest float and the rest (None if it is always 0)."""
    xp, f, bits = module_of(x), proof_float(x), 8 * x.dtype.itemsize
    if not jnp.issubdtype(x.dtype, jnp.integer) or bits <= jnp.finfo(f).nmant:
        x = x.astype(f)
        return (-x if negate else x), None
    # Each half of the bits fits into a float exactly.
    half = xp.asarray(bits // 2, x.dtype)
    high = xp.right_shift(x, half)
    low = x - xp.left_shift(high, half)
    high, low = high.astype(f) * 2.0 ** (bits // 2), low.astype(f)
    return exact_sum(-high, -low) if negate else exact_sum(high, low)


def as_costs(cost: Num[Array, "... n m"], exists: Bool[Array, "... n m"], maximize: bool) -> Pair:
    """Costs to minimise, as a float and a rest: +inf where there is no pair, and −inf for NaN.

    A cost of −inf makes every gap infinite, so nothing is proved.
    """
    xp, (c, c_rest) = module_of(cost), split(cost, maximize)
    c = xp.where(exists, c, xp.inf)
    return xp.where(xp.isnan(c), -xp.inf, c), c_rest


def minus(c: Array, c_rest: Array | None, v: Array) -> tuple[Array, Array]:
    """c + c_rest − v as a float and a rest: exact, or a lower bound if c_rest is not 0."""
    x, rest = exact_sum(c, -v)
    if c_rest is None:
        return x, rest
    return exact_sum(x, 0 - add_up(-rest, -c_rest))


# ---------------------------------------------------------------------------------------------
# Denormal numbers, which XLA flushes to zero and NumPy does not


def small(dtype: Any) -> float:
    """If terms have at least this magnitude, no sum of them and no rounding error is denormal."""
    info = jnp.finfo(dtype)
    return 8 * float(info.tiny) / float(info.eps)


def is_tiny(x: Num[Array, "..."]) -> Bool[Array, "..."]:
    """Where XLA may flush x, or numbers computed from x, to 0.

    On a TPU, denormal float64 numbers are not found.
    """
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    if module_of(x) is np or not floating or x.dtype == jnp.float16:
        return module_of(x).zeros(x.shape, bool)  # every float16 is a normal float32
    limit = small(result_float())
    info = jnp.finfo(x.dtype)
    bits = jnp.dtype(f"uint{info.bits}")
    bound = jnp.asarray(max(limit, float(info.tiny)), x.dtype)

    def by_bits(x: Array, bound: Array) -> Array:
        """Compares the bits, because XLA may flush x to 0."""
        x, bound = (lax.bitcast_convert_type(y, bits) for y in (x, bound))
        magnitude = x & (2 ** (info.bits - 1) - 1)
        return (magnitude > 0) & (magnitude < bound)

    def by_value(x: Array, bound: Array) -> Array:
        return (x != 0) & (jnp.abs(x) < bound)

    if x.dtype != jnp.float64:
        return by_bits(x, bound)
    return lax.platform_dependent(
        x, bound, tpu=by_value, default=by_bits
    )  # TPUs cannot bitcast float64


def flushed_to(dtype: Any, x: Any) -> float:
    """The magnitude below which costs of a dtype, or sums of them, may be flushed to 0."""
    real = proof_float(x)
    narrow = dtype != real and jnp.issubdtype(dtype, jnp.floating) and module_of(x) is jnp
    return float(jnp.finfo(jnp.float32 if narrow else real).tiny)


# ---------------------------------------------------------------------------------------------
# Judging a gap

# Rounding explains a gap of up to this number, times the relative float spacing, times the sum of
# the magnitudes of all rounded numbers.
TOLERANCE = 2


def spacing(*dtypes: Any) -> float:
    """The relative float spacing of the coarsest of these dtypes.

    Dtypes of up to 32 bits count as float32, and int64 as float64.
    """
    known = [np.dtype(np.float32) if np.dtype(x).itemsize < 8 else np.dtype(x) for x in dtypes]
    return max(float(np.finfo(x if x.kind == "f" else np.float64).eps) for x in known)


def tolerance(
    of_costs: Float[Array, "..."], of_duals: Float[Array, "..."], near: float
) -> Float[Array, "..."]:
    """The greatest gap that rounding explains, given sums of magnitudes: of costs and of duals.

    `near`: the relative float spacing of costs and duals. On the host, duals are recomputed in
    float64, so the spacing of float64 is used for them.
    """
    own = float(np.finfo(np.float64).eps) if module_of(of_costs) is np else near
    return TOLERANCE * (near * of_costs + own * of_duals)


def judged(
    gap: Float[Array, "..."], tolerance: Float[Array, "..."]
) -> tuple[Bool[Array, "..."], Float[Array, "..."]]:
    """Whether a gap is within a tolerance, and the gap in the dtype of results.

    The gap is rounded upwards, and is at least 0. NaN becomes +inf, which is within no tolerance.
    """
    xp, dtype = module_of(gap), result_float()
    gap = xp.where(xp.isnan(gap), xp.inf, xp.maximum(gap, 0))
    rounded = gap.astype(dtype)
    if rounded.dtype != gap.dtype:
        rounded = xp.where(rounded.astype(gap.dtype) < gap, above(rounded), rounded)
    return (gap <= tolerance) & xp.isfinite(gap), rounded

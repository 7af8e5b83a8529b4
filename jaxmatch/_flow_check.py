"""Proofs that a flow is maximum, checked without trusting the solver that returned it.

Nothing here is shared with a solver: a mistake would have to be made twice. Only the edges as they
were given are looked at, no arcs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._host import in_full_precision
from jaxmatch._networks import FlowNetwork, check_network
from jaxmatch._promotion import common_dtype
from jaxmatch._result import Check, Flow
from jaxmatch._sharding import over_batch_shards
from jaxmatch._switches import compiled, unchecked


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Int, Num


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FlowCheck(Check):
    """What [`check_flow`][jaxmatch.check_flow] found; leading `...` is batch.

    - `valid`: `bool[...]`, this is a flow from source to sink, of the value that the result states.
    - `optimal`: `bool[...]`, its cut proves that no flow has a greater one.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]


@unchecked
@in_full_precision(main=1)
def check_flow(
    network: FlowNetwork, capacity: ArrayLike, source: ArrayLike, sink: ArrayLike, result: Flow
) -> FlowCheck:
    """Verify a result of `maximum_flow`, in jit or out of it.

    Costs a few passes over the edges and trusts nobody: `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    >>> capacity = jnp.array([3, 2])
    >>> res = jm.maximum_flow(network, capacity, 0, 2)
    >>> jm.check_flow(network, capacity, 0, 2, res)
    FlowCheck(valid=Array(True, dtype=bool), optimal=Array(True, dtype=bool))
    >>> jm.check_flow(network, capacity, 0, 2, res.replace(flow=jnp.array([3, 2])))
    FlowCheck(valid=Array(False, dtype=bool), optimal=Array(False, dtype=bool))

    **Arguments:** those of `maximum_flow`, and what it returned; `status` is not looked at. Only
    `senders`, `receivers` and the number of nodes of `network` are.

    **Returns:**

    A [`FlowCheck`][jaxmatch.FlowCheck].

    - `valid`: the capacities are at least 0, source and sink are two nodes, the flow on each edge
      is between 0 and its capacity and 0 on self-loops, what flows into each node but source and
      sink flows out of it, and `value` is what leaves the source and what reaches the sink.
    - `optimal`: `valid`, the source is in `source_side` and the sink is not, and the edges that
      leave it have capacities of `value` in all. No flow can be more than the capacity of a cut.

    Sums of integers are exact, however long. Of floats, eps being the spacing of their dtype:

    - what flows into a node and out of it may differ by eps times both, as flows are rounded, and
      where x64 is off by as much again for each edge of the node, as the sums here are rounded too;
    - `value` and the capacity of the cut may differ by 4 eps times the value;
    - `value` and what leaves the source or reaches the sink may differ by that, by what the nodes
      may in all, and for each edge with some capacity by 2^−57 (2^−27 where x64 is off) of what can
      leave the source or reach the sink: the bound of `maximum_flow` for capacities in units.

    Denormal numbers count, although XLA takes them for zero elsewhere (but float64 on a TPU).

    A value of +inf is valid and optimal where all flows are NaN and edges without bound lead from
    the source to the sink.

    **Time and memory:** O(n + e) operations and a few temporary arrays of e numbers; for a value of
    +inf a pass over the edges for each level of a breadth-first search.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for dtypes that do not.
    """
    check_network(network)
    n, e = network.num_nodes, network.num_edges
    c = jnp.asarray(capacity)
    if c.ndim == 0 or c.shape[-1] != e:
        raise ValueError(
            f"`capacity` must have shape [..., {e}], one entry for each edge of `network`, "
            f"got {c.shape}."
        )
    batch = result.value.shape
    for name, core in {"flow": (e,), "source_side": (n,)}.items():
        if getattr(result, name).shape != (*batch, *core):
            raise ValueError(
                f"`result.{name}` must have shape {(*batch, *core)} to go with `result.value` and "
                f"`network`, got {getattr(result, name).shape}."
            )
    if result.source_side.dtype != jnp.bool_:
        raise TypeError(f"`result.source_side` must be boolean, got {result.source_side.dtype}.")
    is_float = jnp.issubdtype(result.flow.dtype, jnp.floating)
    kind = jnp.floating if is_float else jnp.integer
    for name, x in {"capacity": c, "result.value": result.value}.items():
        if not (jnp.issubdtype(x.dtype, kind) or (name == "capacity" and x.dtype == jnp.bool_)):
            raise TypeError(
                f"`{name}` must be {'floats' if is_float else 'integers'} as `result.flow` is, "
                f"got {x.dtype}."
            )
    c = jnp.broadcast_to(c.astype(result.flow.dtype), (*batch, e))
    ends = [jnp.broadcast_to(jnp.asarray(x), batch) for x in (source, sink)]
    edges = (network.senders, network.receivers)
    if not network.batch_shape:
        return _check(c, *ends, result, edges)
    return _check(c, *ends, result, tuple(jnp.broadcast_to(x, (*batch, e)) for x in edges))


@compiled()
def _check(
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    result: Flow,
    edges: tuple[Array, Array],
) -> FlowCheck:
    is_shared = edges[0].ndim == 1

    def check(
        capacity: Array, source: Array, sink: Array, result: Flow, *edges: Array
    ) -> FlowCheck:
        of_edges = None if is_shared else 0
        one = partial(_check_one, n=result.source_side.shape[-1])
        for _ in capacity.shape[:-1]:
            one = jax.vmap(one, (0, 0, 0, 0, of_edges, of_edges))
        return one(capacity, source, sink, result, *edges)

    arguments = (capacity, source, sink, result)
    if is_shared:
        return over_batch_shards(check, *arguments, core_dims=1, shared=edges)
    return over_batch_shards(check, *arguments, *edges, core_dims=1)


def _check_one(
    capacity: Num[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    result: Flow,
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    *,
    n: int,
) -> FlowCheck:
    value, flow, source_side = result.value, result.flow, result.source_side
    sane = (source >= 0) & (source < n) & (sink >= 0) & (sink < n) & (source != sink)
    sane &= ((tail >= 0) & (tail < n) & (head >= 0) & (head < n)).all()
    nothing = jnp.zeros_like(capacity)
    sane &= _in_order(nothing, capacity).all()
    if n < 2:
        return FlowCheck(sane & False, sane & False)
    ends = source.clip(0, n - 1), sink.clip(0, n - 1)
    separated = source_side[ends[0]] & ~source_side[ends[1]]
    if flow.size == 0:
        return FlowCheck(sane & (value == 0), sane & separated & (value == 0))
    tail, head = tail.clip(0, n - 1), head.clip(0, n - 1)
    within = _in_order(flow, jnp.where(tail != head, capacity, nothing)).all()
    cut = jnp.where(source_side[tail] & ~source_side[head], capacity, 0)
    if jnp.issubdtype(flow.dtype, jnp.integer):
        conserved, closed = _integer_sums(value, flow, tail, head, *ends, cut, n)
        valid = sane & within & conserved
        return FlowCheck(valid, valid & separated & closed)

    conserved, closed = _float_sums(value, flow, capacity, tail, head, *ends, cut, n)
    infinite = (value == jnp.inf) & jnp.isnan(flow).all()
    reached = _reached(infinite & sane, capacity, tail, head, ends[0], n)[ends[1]]
    valid = sane & ((within & conserved) | (infinite & reached))
    return FlowCheck(valid, valid & separated & (closed | infinite))


# ---------------------------------------------------------------------------------------------
# Integers: sums of digits, which are never long enough to wrap around


def _integer_sums(
    value: Int[Array, ""],
    flow: Int[Array, " e"],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    cut: Int[Array, " e"],
    n: int,
) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Whether flow is conserved and `value` in all, and whether the cut has just as much."""
    wide = common_dtype(value, flow)
    # As many bits of a number as can be added up e + 1 times, beside a sign.
    width = jnp.iinfo(wide).bits - 2 - (flow.size + 1).bit_length()
    digits = partial(_digits, dtype=wide, width=width)
    out = digits(flow)
    net = jnp.zeros_like(out, shape=(len(out), n)).at[:, tail].add(out).at[:, head].add(-out)
    total = digits(value)
    net = net.at[:, source].add(-total).at[:, sink].add(total)
    closed = _is_zero(digits(cut).sum(-1) - total, width)
    return (value >= 0) & _is_zero(net, width).all(), closed


def _digits(x: Int[Array, "..."], *, dtype: np.dtype, width: int) -> Int[Array, "d ..."]:
    """Numbers from 0 on, in digits of so many bits, the lowest first."""
    x = x.astype(dtype)
    shifts = range(0, jnp.iinfo(dtype).bits, width)
    return jnp.stack([x >> shift & (1 << width) - 1 for shift in shifts])


def _is_zero(digits: Int[Array, "d ..."], width: int) -> Bool[Array, "..."]:
    """Whether digits of any sign and size stand for 0: carried on, nothing is left in any."""
    zero, carry = jnp.ones_like(digits[0], bool), jnp.zeros_like(digits[0])
    for digit in digits:
        carry += digit
        zero &= (carry & (1 << width) - 1) == 0
        carry >>= width
    return zero & (carry == 0)


# ---------------------------------------------------------------------------------------------
# Floats. XLA takes denormal numbers for zero, so they are looked at by their bits.


def _in_order(low: Num[Array, "..."], high: Num[Array, "..."]) -> Bool[Array, "..."]:
    """Whether 0 <= low <= high; on a TPU float64 is compared as XLA does."""

    def by_value(low: Array, high: Array) -> Array:
        return (low >= 0) & (low <= high)

    def by_bits(low: Array, high: Array) -> Array:
        low, high = _rank(low), _rank(high)
        return (low >= 0) & (low <= high)

    if not jnp.issubdtype(low.dtype, jnp.floating):
        return by_value(low, high)
    if low.dtype != jnp.float64:
        return by_bits(low, high)
    return lax.platform_dependent(low, high, tpu=by_value, default=by_bits)


def _rank(x: Float[Array, "..."]) -> Int[Array, "..."]:
    """Integers in the order of the numbers from 0 on; -1 for NaN and what is below 0."""
    bits = jnp.dtype(f"int{jnp.finfo(x.dtype).bits}")
    signed = lax.bitcast_convert_type(x, bits)
    size = signed & jnp.iinfo(bits).max
    last = lax.bitcast_convert_type(jnp.asarray(jnp.inf, x.dtype), bits)
    return jnp.where((size == 0) | ((signed > 0) & (size <= last)), size, -1)


def _widen(x: Float[Array, "..."], dtype: np.dtype) -> Float[Array, "..."]:
    """The same numbers, denormal ones too where `dtype` is wider."""
    if x.dtype == dtype:
        return x
    size = _rank(jnp.abs(x))
    least = float(jnp.finfo(x.dtype).smallest_subnormal)
    denormal = size.astype(dtype) * least
    is_denormal = size < 1 << jnp.finfo(x.dtype).nmant
    return jnp.where(is_denormal & (size >= 0), jnp.copysign(denormal, x), x.astype(dtype))


class _Parts(NamedTuple):
    """Numbers from 0 on as large + small / 2^k: each is one of the two, and neither a part nor a
    difference of sums of parts is denormal. What is linear is done to both."""

    large: Float[Array, "..."]
    small: Float[Array, "..."]

    @classmethod
    def of(cls, x: Float[Array, "..."]) -> _Parts:
        below, k = _SMALL[x.dtype.name]
        info = jnp.finfo(x.dtype)

        def by_value(x: Array) -> Array:
            return x * 2.0**k

        def by_bits(x: Array) -> Array:
            rank = _rank(x)
            denormal = rank.astype(x.dtype) * 2.0 ** (info.minexp - info.nmant + k)
            return jnp.where(rank < 1 << info.nmant, denormal, by_value(x))

        if x.dtype == jnp.float64:
            small = lax.platform_dependent(x, tpu=by_value, default=by_bits)
        else:
            small = by_bits(x)
        is_small = jnp.abs(x) < 2.0**below
        return cls(jnp.where(is_small, 0, x), jnp.where(is_small, small, 0))

    def map(self, f: Callable[[Array], Array]) -> _Parts:
        return _Parts(f(self.large), f(self.small))

    def plus(self, other: _Parts) -> _Parts:
        return _Parts(self.large + other.large, self.small + other.small)

    def minus(self, other: _Parts) -> _Parts:
        return self.plus(other.map(jnp.negative))

    def whole(self) -> tuple[Array, Array]:
        """In units of 1, where small parts may be lost, and of 1 / 2^k, where it may overflow."""
        _, k = _SMALL[self.large.dtype.name]
        return self.large + self.small * 2.0**-k, self.large * 2.0**k + self.small

    def at_most(self, bound: _Parts) -> Bool[Array, "..."]:
        (x, x_scaled), (most, most_scaled) = self.whole(), bound.whole()
        return jnp.where(bound.large == 0, x_scaled <= most_scaled, x <= most)

    def within(self, bound: _Parts) -> Bool[Array, "..."]:
        """Whether the magnitude is at most `bound`."""
        return self.at_most(bound) & self.map(jnp.negative).at_most(bound)


# For each dtype: numbers below 2^below are small, and k.
_SMALL = {"float32": (-40, 80), "float64": (-400, 700)}


def _float_sums(
    value: Float[Array, ""],
    flow: Float[Array, " e"],
    capacity: Float[Array, " e"],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    cut: Float[Array, " e"],
    n: int,
) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """The same for floats, with the bounds that `check_flow` documents."""
    real = jax.dtypes.canonicalize_dtype(np.float64)
    eps, wide = float(jnp.finfo(flow.dtype).eps), real.itemsize == 8
    flow, capacity, cut, value = (_Parts.of(_widen(x, real)) for x in (flow, capacity, cut, value))
    nothing = jnp.zeros_like(flow.large, shape=(n,))
    net = flow.map(lambda x: nothing.at[tail].add(x).at[head].add(-x))
    through = flow.map(lambda x: nothing.at[tail].add(x).at[head].add(x))
    degree = nothing.at[tail].add(1).at[head].add(1)
    allowed = through.map(lambda x: (eps + degree * float(jnp.finfo(real).eps)) * x)
    node = jnp.arange(n)
    inner = (node != source) & (node != sink)
    conserved = (~inner | net.within(allowed)).all()

    def along(at: Array, x: _Parts) -> _Parts:
        return x.map(lambda x: _sum(jnp.where(at, x, 0)))

    leaving = along(tail == source, flow).minus(along(head == source, flow))
    arriving = along(head == sink, flow).minus(along(tail == sink, flow))
    can_leave, can_arrive = along(tail == source, capacity), along(head == sink, capacity)
    fewer = can_leave.at_most(can_arrive)
    least = jax.tree.map(partial(jnp.where, fewer), can_leave, can_arrive)
    finite = capacity.map(lambda x: _sum(jnp.where(x < jnp.inf, x, 0)))
    least = jax.tree.map(partial(jnp.where, jnp.isfinite(least.large)), least, finite)
    used = ((capacity.large > 0) | (capacity.small > 0)).sum(dtype=real)
    unit = 2.0**-57 if wide else 2.0**-27
    rounded = value.map(lambda x: 4 * eps * x)
    slack = rounded.plus(allowed.map(_sum)).plus(least.map(lambda x: x * unit * used))
    conserved &= leaving.minus(value).within(slack) & arriving.minus(value).within(slack)
    return conserved, cut.map(_sum).minus(value).within(rounded)


def _sum(x: Float[Array, " k"]) -> Float[Array, ""]:
    """The sum with the rounding errors of its additions added up beside it (Knuth)."""
    rest = jnp.zeros_like(x)
    while x.size > 1:
        odd = (0, x.size % 2)
        x, rest = jnp.pad(x, odd), jnp.pad(rest, odd)
        a, b = x[::2], x[1::2]
        x = a + b
        part = x - a
        rest = rest[::2] + rest[1::2] + ((a - (x - part)) + (b - part))
    return x[0] + jnp.where(jnp.isfinite(rest[0]), rest[0], 0)


def _reached(
    wanted: Bool[Array, ""],
    capacity: Float[Array, " e"],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    source: Int[Array, ""],
    n: int,
) -> Bool[Array, " n"]:
    """The nodes to which edges without bound lead from the source; looked for where wanted."""
    endless = capacity == jnp.inf

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, _ = state
        more = reached.at[head].max(reached[tail] & endless)
        return more, (more != reached).any()

    reached = wanted & (jnp.arange(n) == source) & (capacity.sum() >= 0)
    return lax.while_loop(lambda state: state[1], step, (reached, reached.any()))[0]

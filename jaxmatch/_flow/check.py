"""`check_flow`: verifies a maximum flow by its cut.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error. It reads `senders` and `receivers` of the network, not the arcs that were built from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array, as_result
from jaxmatch._common.full_range import Parts, choose, in_order, widen
from jaxmatch._common.given import require
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import Place, current_place, in_full_precision
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.proof import add_at, module_of, over_problems, proof_float, repeat
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Flow
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._flow.network import FlowNetwork, as_node, check_network


C = TypeVar("C", bound=Check)

_MANY = 1 << 24  # the most edges accepted if their number is a symbolic dimension


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class FlowCheck(Check):
    """The result of [`check_flow`][jaxmatch.check_flow]; leading `...` is batch.

    - `valid`: `bool[...]`, the result is a flow from source to sink of the stated value.
    - `optimal`: `bool[...]`, its cut proves that no flow has a greater value.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]


@unchecked
@in_full_precision("capacity", on_host=True)
def check_flow(
    network: FlowNetwork, capacity: ArrayLike, source: ArrayLike, sink: ArrayLike, result: Flow
) -> FlowCheck:
    """Verify a result of `maximum_flow`, in jit or out of it.

    Makes a few passes over the edges. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    >>> capacity = jnp.array([3, 2])
    >>> res = jm.maximum_flow(network, capacity, 0, 2)
    >>> jm.check_flow(network, capacity, 0, 2, res)
    FlowCheck(valid=Array(True, dtype=bool), optimal=Array(True, dtype=bool))
    >>> jm.check_flow(network, capacity, 0, 2, res.replace(flow=jnp.array([3, 2])))
    FlowCheck(valid=Array(False, dtype=bool), optimal=Array(False, dtype=bool))

    **Arguments:**

    - `network`, `capacity`, `source`, `sink`: as they were passed to `maximum_flow`. Only
      `senders`, `receivers` and the number of nodes of `network` are read.
    - `result`: the solver's result; `status` is ignored.

    **Returns:** a [`FlowCheck`][jaxmatch.FlowCheck].

    - `valid`: capacities are at least 0, and source and sink are different nodes. The flow on each
      edge is between 0 and its capacity, and 0 on self-loops. It is conserved at each node except
      source and sink. `value` is the net flow out of the source and into the sink.
    - `optimal`: the result is `valid`, `source_side` contains the source and not the sink, and the
      capacities of the edges that leave `source_side` sum to `value`. No flow exceeds the capacity
      of a cut, so `value` is the maximum.

    **Exact:** sums of any number of integers. Sums of floats have the tolerances of
    [Checks][check-flow]. Denormal numbers are not flushed to 0 (except float64 on a TPU).

    **Time and memory:** O(n + e) operations and a few temporary arrays of e numbers. A value of
    +inf takes one more pass over the edges for each level of a breadth-first search.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for dtypes that do not.
    """
    check_network(network)
    n, e = network.num_nodes, network.num_edges
    place = current_place()
    c = as_capacity(capacity, network, place)
    require("result", result, Flow, "`Flow(value, flow, source_side, status)` makes one")
    batch = np.shape(result.value)
    shapes = {"value": batch, "flow": (*batch, e), "source_side": (*batch, n)}
    beside = "`result.value` and `network`"
    result = as_result(result, Flow, shapes, beside, "", place=place)
    is_float = jnp.issubdtype(result.flow.dtype, jnp.floating)
    require_kind("capacity", c, "result.flow", is_float)
    require_kind("result.value", result.value, "result.flow", is_float)
    if not is_float:  # in the wider of both dtypes, so that no flow and no capacity wraps around
        wide = common_dtype(result.flow, c, jnp.int32)
        result = result.replace(flow=result.flow.astype(wide))
    like = "result.value"
    c = broadcast("capacity", c.astype(result.flow.dtype), (*batch, e), like)
    source = broadcast("source", as_node("source", source, network), batch, like)
    sink = broadcast("sink", as_node("sink", sink, network), batch, like)
    return over_networks(_check_one, network, c, source, sink, result)


def as_capacity(capacity: ArrayLike, network: FlowNetwork, place: Place) -> Num[Array, "... e"]:
    c, e = as_array("capacity", capacity, place), network.num_edges
    if c.ndim == 0 or c.shape[-1] != e:
        raise ValueError(
            f"`capacity` must have shape [..., {e}], one entry for each edge of `network`, "
            f"got {c.shape}."
        )
    return c


def require_kind(name: str, x: Array, other: str, is_float: bool) -> None:
    """Raises a `TypeError` unless x holds floats or integers, as the array `other` does."""
    kind = jnp.floating if is_float else jnp.integer
    if not (jnp.issubdtype(x.dtype, kind) or (name == "capacity" and x.dtype == jnp.bool_)):
        raise TypeError(
            f"`{name}` must be {'floats' if is_float else 'integers'} as `{other}` is, "
            f"got {x.dtype}."
        )


def broadcast(name: str, x: Array, shape: tuple[int, ...], like: str) -> Array:
    xp = jnp if is_symbolic(shape) else module_of(x)
    try:
        return xp.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` has shape {x.shape}, which does not broadcast to {shape}, one for each of "
            f"`{like}`."
        ) from None


def over_networks(
    one: Callable[..., C],
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    result: Any,
) -> C:
    """Calls `one(capacity, source, sink, result, senders, receivers, n=...)` for each problem."""
    edges = (network.senders, network.receivers)
    if network.batch_shape:
        edges = tuple(module_of(x).broadcast_to(x, capacity.shape) for x in edges)
    if module_of(capacity) is np:
        check_one, batch = partial(one, n=network.num_nodes), capacity.shape[:-1]
        if network.batch_shape:
            return over_problems(check_one, batch, capacity, source, sink, result, *edges)

        def on_shared(*problem: Any) -> C:
            return check_one(*problem, *edges)

        return over_problems(on_shared, batch, capacity, source, sink, result)
    return _over_networks(capacity, source, sink, result, edges, one=one)


@compiled(static_argnames="one")
def _over_networks(
    capacity: Array,
    source: Array,
    sink: Array,
    result: Any,
    edges: tuple[Array, ...],
    *,
    one: Callable[..., C],
) -> C:
    is_shared = edges[0].ndim == 1

    def check(capacity: Array, source: Array, sink: Array, result: Any, *edges: Array) -> C:
        of_edges = None if is_shared else 0
        check_one = partial(one, n=result.source_side.shape[-1])
        for _ in capacity.shape[:-1]:
            check_one = jax.vmap(check_one, (0, 0, 0, 0, of_edges, of_edges))
        return check_one(capacity, source, sink, result, *edges)

    arguments = (capacity, source, sink, result)
    if is_shared:
        return over_batch_shards(apart(check), *arguments, core_dims=1, shared=edges)
    return over_batch_shards(apart(check), *arguments, *edges, core_dims=1)


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
    sane = is_sane(capacity, source, sink, tail, head, n)
    if n == 0:
        return FlowCheck(sane, sane)
    ends = source.clip(0, n - 1), sink.clip(0, n - 1)
    separated = source_side[ends[0]] & ~source_side[ends[1]]
    if flow.size == 0:
        return FlowCheck(sane & (value == 0), sane & separated & (value == 0))
    tail, head = tail.clip(0, n - 1), head.clip(0, n - 1)
    xp = module_of(capacity)
    within = in_order(flow, xp.where(tail != head, capacity, xp.zeros_like(capacity))).all()
    crosses = source_side[tail] & ~source_side[head]
    closed = is_capacity(value, xp.where(crosses, capacity, xp.zeros_like(capacity)))
    if jnp.issubdtype(flow.dtype, jnp.integer):
        valid = sane & within & _conserves_integers(value, flow, tail, head, *ends, n)
        return FlowCheck(valid, valid & separated & closed)

    conserved = _conserves_floats(value, flow, crosses, tail, head, *ends, n)
    infinite = (value == jnp.inf) & xp.isnan(flow).all()
    reached = _reached(infinite & sane, capacity, tail, head, ends[0], n)[ends[1]]
    valid = sane & ((within & conserved) | (infinite & reached))
    return FlowCheck(valid, valid & separated & (closed | infinite))


def is_sane(
    capacity: Num[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    n: int,
) -> Bool[Array, ""]:
    """Whether source and sink are different nodes, edges join nodes, and no capacity is negative or
    NaN."""
    sane = (source >= 0) & (source < n) & (sink >= 0) & (sink < n) & (source != sink)
    sane &= ((tail >= 0) & (tail < n) & (head >= 0) & (head < n)).all()
    return sane & in_order(module_of(capacity).zeros_like(capacity), capacity).all()


def is_capacity(value: Num[Array, ""], cut: Num[Array, " e"]) -> Bool[Array, ""]:
    """Whether `value` is finite and is the capacity of a cut.

    `cut`, not empty, holds the capacity of each edge of the cut, and 0 for every other edge. The
    sum of its entries must equal `value`: exactly for integers, within 4 eps · `value` for floats.
    """
    if jnp.issubdtype(cut.dtype, jnp.integer):
        wide = common_dtype(value, cut)
        digits = partial(_digits, dtype=wide, width=_width(wide, cut.size))
        both = zip(digits(cut), digits(value), strict=True)
        total = [x.sum(dtype=wide) - y for x, y in both]
        sums = _is_zero(total, _width(wide, cut.size))
        return (value >= 0) & sums & _is_countable(cut.size)
    real = proof_float(cut)
    in_cut, total = Parts.of(widen(cut, real)), Parts.of(widen(value, real))
    eps = float(jnp.finfo(cut.dtype).eps)
    rounded = total.map(lambda x: 4 * eps * x)
    return (value < jnp.inf) & in_cut.map(_sum).minus(total).within(rounded)


# ---------------------------------------------------------------------------------------------
# Integers. Numbers are split into digits of a few bits, so that sums of digits cannot wrap around.


def _conserves_integers(
    value: Int[Array, ""],
    flow: Int[Array, " e"],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    n: int,
) -> Bool[Array, ""]:
    """Whether every node but source and sink conserves the flow, and its value is `value`."""
    wide = common_dtype(value, flow)
    width = _width(wide, flow.size)
    digits = partial(_digits, dtype=wide, width=width)
    node = module_of(flow).arange(n, dtype=np.int32)
    ends = (node == sink).astype(wide) - (node == source).astype(wide)
    both = zip(digits(flow), digits(value), strict=True)
    net = [add_at(n, tail, x) - add_at(n, head, x) + ends * y for x, y in both]
    return (value >= 0) & _is_zero(net, width).all() & _is_countable(flow.size)


def _width(dtype: np.dtype, count: int) -> int:
    """How many bits a digit may have if `count + 1` signed digits must add up without overflow."""
    count = _MANY if is_symbolic((count,)) else count
    return jnp.iinfo(dtype).bits - 2 - (count + 1).bit_length()


def _is_countable(count: int) -> bool | Bool[Array, ""]:
    """Whether `count` digits add up without overflow: False for a symbolic count above `_MANY`."""
    return not is_symbolic((count,)) or jnp.asarray(count) <= _MANY


def _digits(x: Int[Array, "..."], *, dtype: np.dtype, width: int) -> list[Int[Array, "..."]]:
    """Splits non-negative numbers into digits of `width` bits, the lowest digit first."""
    x = x.astype(dtype)
    shifts = range(0, jnp.iinfo(dtype).bits, width)
    return [x >> shift & (1 << width) - 1 for shift in shifts]


def _is_zero(digits: list[Int[Array, "..."]], width: int) -> Bool[Array, "..."]:
    """Whether the number with these digits is 0. Digits may be negative or exceed `width` bits."""
    zero, carry = digits[0] == digits[0], 0 * digits[0]
    for digit in digits:
        carry = carry + digit
        zero = zero & ((carry & (1 << width) - 1) == 0)
        carry = carry >> width
    return zero & (carry == 0)


# ---------------------------------------------------------------------------------------------
# Floats


# Limits on the flow of one edge, as multiples of the value of the whole flow.
_FAR = 2.0**10  # flow beyond this does not widen the tolerance at the ends of the edge further
_TOO_FAR = 2.0**21  # flow beyond this is invalid: its rounding error could hide other flows


def _conserves_floats(
    value: Float[Array, ""],
    flow: Float[Array, " e"],
    crosses: Bool[Array, " e"],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    n: int,
) -> Bool[Array, ""]:
    """As `_conserves_integers`, for floats, with the tolerances that `check_flow` documents."""
    xp, real = module_of(flow), proof_float(flow)
    eps = float(jnp.finfo(flow.dtype).eps)
    flows, total = (Parts.of(widen(x, real)) for x in (flow, value))
    far, too_far = (total.map(lambda x, times=times: x * times) for times in (_FAR, _TOO_FAR))
    counted = choose(flows.at_most(far), flows, far)
    net = flows.map(lambda x: add_at(n, tail, x) - add_at(n, head, x))
    through = counted.map(lambda x: add_at(n, tail, x) + add_at(n, head, x))
    one = xp.ones_like(flows.large)
    degree = add_at(n, tail, one) + add_at(n, head, one)
    allowed = through.map(lambda x: (eps + degree * float(jnp.finfo(real).eps)) * x)
    node = xp.arange(n, dtype=np.int32)
    inner = (node != source) & (node != sink)
    conserved = (~inner | net.within(allowed)).all()
    conserved &= (flows.at_most(too_far) | (value == 0)).all()

    def sum_at(at: Array, x: Parts) -> Parts:
        return x.map(lambda x: _sum(xp.where(at, x, 0)))

    each = 2.0**-44 if flow.dtype == jnp.float64 else 2.0**-26
    rounded = total.map(lambda x: (4 * eps + each * crosses.sum(dtype=real)) * x)
    for first, second in ((tail == source, head == source), (head == sink, tail == sink)):
        sent = sum_at(first, flows).minus(sum_at(second, flows))
        slack = rounded.plus(sum_at(first | second, counted).map(lambda x: eps * x))
        conserved &= sent.minus(total).within(slack)
    return conserved & (value < jnp.inf)  # an infinite slack would admit any value


def _sum(x: Float[Array, " k"]) -> Float[Array, ""]:
    """Compensated pairwise sum: at the end it adds the rounding errors of all additions (Knuth)."""
    xp = module_of(x)
    rest = xp.zeros_like(x)
    while x.size > 1:
        odd = (0, x.size % 2)
        x, rest = xp.pad(x, odd), xp.pad(rest, odd)
        a, b = x[::2], x[1::2]
        x = a + b
        part = x - a
        rest = rest[::2] + rest[1::2] + ((a - (x - part)) + (b - part))
    return x[0] + xp.where(xp.isfinite(rest[0]), rest[0], 0)


def _reached(
    wanted: Bool[Array, ""],
    capacity: Float[Array, " e"],
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    source: Int[Array, ""],
    n: int,
) -> Bool[Array, " n"]:
    """The nodes that edges of capacity +inf reach from the source; none if not `wanted`."""
    endless = capacity == jnp.inf

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, _ = state
        more = reached | (add_at(n, head, (reached[tail] & endless).astype(np.int32)) > 0)
        return more, (more != reached).any()

    xp = module_of(capacity)
    reached = wanted & (xp.arange(n, dtype=np.int32) == source) & (capacity.sum() >= 0)
    return repeat(lambda state: state[1], step, (reached, reached.any()), xp)[0]

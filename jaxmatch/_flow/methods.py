"""The methods for maximum flows: which solver runs on each platform, and the dispatch to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypedDict

import jax
import jax.numpy as jnp

from jaxmatch._common.arguments import choices_of
from jaxmatch._common.result import Flow
from jaxmatch._common.typing import Array
from jaxmatch._ffi.dispatch import Method, by_platform, mapped_first, rebatch, until_done
from jaxmatch._flow import native
from jaxmatch._flow import xla as _xla_flow
from jaxmatch._flow.network import FlowNetwork


METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "augment": Method(cpu="augment", cuda="auto"),
    "pseudoflow": Method(cpu="pseudoflow", cuda="auto"),
    "thread_centric": Method(cpu="auto", cuda="thread_centric"),
    "two_level": Method(cpu="auto", cuda="two_level"),
    "xla": Method(cpu=None, cuda=None),
}


class FlowOptions(TypedDict, total=False):
    """Options of [`maximum_flow`][jaxmatch.maximum_flow] on a GPU.

    A plain dict; each method takes some of the keys, see [Methods][flow-methods].

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    >>> options: jm.FlowOptions = {"tile": 8}
    >>> res = jm.maximum_flow(network, jnp.array([3, 2]), 0, 2, method="two_level", options=options)
    >>> int(res.value)
    2

    **Options:**

    - `tile`: for `"two_level"`, the number of threads per node. `"degree"` chooses it for each node
      by the number of arcs.
    - `cycle`: the number of rounds between two global relabellings; with 0 the kernel decides.
    """

    tile: Literal["degree", 4, 8, 16, 32]
    cycle: int


CHOICES = choices_of(FlowOptions)
# The options of GPU solvers and their defaults.
OPTIONS: dict[str, FlowOptions] = {
    "thread_centric": {"cycle": 0},
    "two_level": {"tile": "degree", "cycle": 0},
}


def _in_one_call(
    network: FlowNetwork,
    capacity: Array,
    source: Array,
    sink: Array,
    start: Array | None = None,
    **parameters: Any,
) -> Flow:
    parameters |= {} if start is None else {"start": start}
    return native.flow(network, capacity, source, sink, steps=0, **parameters)[0]


def _in_steps(*problem: Any, steps: int, **parameters: Any) -> Flow:
    return until_done(
        lambda state: native.flow(*problem, state=state, steps=steps, **parameters),
        native.empty_flow_buffers(*problem),
        lambda state: state.done,
    )


def solve_here(
    network: FlowNetwork,
    capacity: Array,
    source: Array,
    sink: Array,
    start: Array | None = None,
    *,
    method: str,
) -> Flow:
    """Solves NumPy arrays by one native call, outside of a trace."""
    problem = (network, capacity, source, sink, start)
    return _in_one_call(*problem, platform="cpu", method=method, options={})


def cuda_options(solver: str, layout: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a GPU solver, with defaults for those that are not given."""
    return {**OPTIONS[solver], **options, "layout": layout} if solver in OPTIONS else {}


def solve_flow(
    network: FlowNetwork,
    capacity: Array,
    source: Array,
    sink: Array,
    start: Array | None = None,
    *,
    method: str,
    options: tuple[tuple[str, Any], ...] = (),
    steps: int = 0,
) -> Flow:
    """Solves a batch in one call, also under `vmap`, which does not copy an unmapped network.

    The network has the same batch dimensions as the other arguments, or none. Only the CPU begins
    with the flow `start`.
    """
    cpu, cuda = METHODS[method]
    on_cpu = on_cuda = None
    if cpu is not None:
        on_cpu = partial(_in_one_call, platform="cpu", method=cpu, options={})
    if cuda is not None:
        of_kernel = cuda_options(cuda, network.layout, dict(options))
        call = partial(_in_steps, steps=steps) if steps else _in_one_call
        on_cuda = partial(call, platform="cuda", method=cuda, options=of_kernel)

    def solve(*problem: Any) -> Flow:
        sizes = (problem[0].num_nodes, problem[0].num_edges, problem[0].num_arcs)
        if start is None:
            return by_platform(_xla_flow.solve, *problem, cpu=on_cpu, cuda=on_cuda, sizes=sizes)
        twin = _without_start(_xla_flow.solve)
        cold = None if on_cuda is None else _without_start(on_cuda)
        return by_platform(twin, *problem, cpu=on_cpu, cuda=cold, sizes=sizes)

    problem = (network, capacity, source, sink, *(() if start is None else (start,)))
    return rebatch(solve, _aligned)(*problem)


def _without_start(solve: Callable[..., Flow]) -> Callable[..., Flow]:
    return lambda *problem: solve(*problem[:-1])


def _aligned(size: int, mapped: tuple[Any, ...], problem: tuple[Any, ...]) -> tuple[Any, ...]:
    (network, *others), (of_network, *of_others) = problem, mapped
    others = [
        mapped_first(x, is_mapped, size) for x, is_mapped in zip(others, of_others, strict=True)
    ]
    capacity = others[0]

    def with_batch(x: Array, is_mapped: bool) -> Array:
        x = mapped_first(x, is_mapped, size)
        inner = (1,) * (capacity.ndim - x.ndim)
        x = x.reshape(size, *inner, *x.shape[1:])
        return jnp.broadcast_to(x, (*capacity.shape[:-1], x.shape[-1]))

    if any(jax.tree.leaves(of_network)) or network.batch_shape:
        network = jax.tree.map(with_batch, network, of_network)
    return network, *others

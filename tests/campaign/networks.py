"""Flows and cuts of the networks of a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from helpers import to_numpy, x64

import jaxmatch as jm
from campaign.problems import Batch


@lru_cache(maxsize=64)
def network_of(edges: Any, layout: str = "csr") -> jm.FlowNetwork:
    tail, head, n = edges
    return to_numpy(jm.FlowNetwork.from_edges(tail, head, n, layout=layout))


@lru_cache(maxsize=64)
def _flow_program(last: int, options: tuple[tuple[str, Any], ...]) -> Any:
    return jax.jit(lambda network, c: jm.maximum_flow(network, c, 0, last, **dict(options)))


def flow(traced: bool = False, layout: str = "csr", **options: Any) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Any:
        network, last = network_of(batch.options["edges"], layout), batch.options["edges"][2] - 1
        capacity = batch.arrays["capacity"]
        if "hurt" in batch.known:
            network = malformed(network, batch, _ARRAYS)
        with x64(batch.wide):
            if traced:
                program = _flow_program(last, tuple(sorted(options.items())))
                return to_numpy(program(network, jnp.asarray(capacity)))
            return to_numpy(jm.maximum_flow(network, capacity, 0, last, **options))

    return solve


def flow_of(capacity: Any, edges: Any) -> jm.Flow:
    with jax.ensure_compile_time_eval():
        network = network_of(edges)
    return jm.maximum_flow(network, capacity, 0, edges[2] - 1)


def cut(batch: Batch) -> Any:
    """A minimum cut near the sink."""
    network, last = network_of(batch.options["edges"]), batch.options["edges"][2] - 1
    with x64(batch.wide):
        found = jm.minimum_cut(network, batch.arrays["capacity"], 0, last, nearest="sink")
        return to_numpy(found)


def as_flow(batch: Batch, found: Any) -> Any:
    """A cut near the sink with the flow of the reversed network, so that it is judged as a flow."""
    tail, head, n = batch.options["edges"]
    mirrored = tuple(n - 1 - v for v in head), tuple(n - 1 - v for v in tail), n
    capacity = batch.arrays["capacity"]
    with x64(batch.wide):
        back = to_numpy(jm.maximum_flow(network_of(mirrored), capacity, 0, n - 1))
    side = ~found.source_side[:, ::-1] & (found.status == 0)[:, None]
    return back.replace(value=found.value, source_side=side, status=found.status)


_ARRAYS = ("arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge")


def malformed(network: jm.FlowNetwork, batch: Batch, names: tuple[str, ...]) -> jm.FlowNetwork:
    """One network for each problem, of which some have a number out of range in these arrays."""
    copies = {
        name: np.tile(x, (batch.count, 1)) for name, x in vars(network).items() if name != "layout"
    }
    values = [-1, -(2**31), 2**31 - 1, 2**16]
    for k in np.flatnonzero(batch.known["hurt"]):
        where = int(batch.known["where"][k])
        x = copies[names[where % len(names)]]
        x[k, where // 8 % x.shape[1]] = values[where // 1024 % len(values)]
    return dataclasses.replace(network, **copies)

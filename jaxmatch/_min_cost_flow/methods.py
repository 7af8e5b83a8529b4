"""The methods for minimum-cost flows: which solver runs on each platform, and the dispatch."""

from __future__ import annotations

from functools import partial

import jax

from jaxmatch._ffi.dispatch import Method, by_platform
from jaxmatch._flow.network import FlowNetwork
from jaxmatch._min_cost_flow import native
from jaxmatch._min_cost_flow import xla as _xla_min_cost_flow
from jaxmatch._min_cost_flow.problem import MinCostProblem
from jaxmatch._min_cost_flow.result import MinimumCostFlow


METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "network_simplex": Method(cpu="network_simplex", cuda="network_simplex"),
    "cost_scaling": Method(cpu="cost_scaling", cuda="network_simplex"),
    "xla": Method(cpu=None, cuda=None),
}


def solve_min_cost_flow(
    network: FlowNetwork, problem: MinCostProblem, *, method: str
) -> MinimumCostFlow:
    """Solves a batch by the native solver of the platform, or by the pure-JAX twin.

    The network has the same batch dimensions as the problem, or none.
    """
    cpu, cuda = METHODS[method]
    solve = native.minimum_cost_flow
    on_cpu = None if cpu is None else partial(solve, method=cpu, platform="cpu")
    on_cuda = None if cuda is None else partial(solve, method=cuda, platform="cuda")
    sizes = (network.num_nodes, network.num_edges)
    return by_platform(_twin, network, problem, cpu=on_cpu, cuda=on_cuda, sizes=sizes)


def _twin(network: FlowNetwork, problem: MinCostProblem) -> MinimumCostFlow:
    solve = _xla_min_cost_flow.solve
    for _ in problem.supply.shape[:-1]:
        solve = jax.vmap(solve, in_axes=(0 if network.batch_shape else None, 0))
    return solve(network, problem)

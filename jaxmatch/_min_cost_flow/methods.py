"""The methods for minimum-cost flows: which solver runs on each platform, and the dispatch."""

from __future__ import annotations

from functools import partial

import jax

from jaxmatch._ffi.dispatch import Method, by_platform
from jaxmatch._min_cost_flow import native
from jaxmatch._min_cost_flow import xla as _xla_min_cost_flow
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem
from jaxmatch._min_cost_flow.result import MinimumCostFlow


METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "network_simplex": Method(cpu="network_simplex", cuda="network_simplex"),
    "cost_scaling": Method(cpu="cost_scaling", cuda="network_simplex"),
    "xla": Method(cpu=None, cuda=None),
}


def solve_min_cost_flow(ends: Ends, problem: MinCostProblem, *, method: str) -> MinimumCostFlow:
    """Solves a batch by the native solver of the platform, or by the pure-JAX twin."""
    cpu, cuda = METHODS[method]
    solve = native.minimum_cost_flow
    on_cpu = None if cpu is None else partial(solve, method=cpu, platform="cpu")
    on_cuda = None if cuda is None else partial(solve, method=cuda, platform="cuda")
    sizes = (problem.supply.shape[-1], problem.capacity.shape[-1])
    return by_platform(_twin, ends, problem, cpu=on_cpu, cuda=on_cuda, sizes=sizes)


def _twin(ends: Ends, problem: MinCostProblem) -> MinimumCostFlow:
    solve = _xla_min_cost_flow.solve
    for _ in problem.supply.shape[:-1]:
        solve = jax.vmap(solve, in_axes=(None if ends.are_shared else 0, 0))
    return solve(ends, problem)

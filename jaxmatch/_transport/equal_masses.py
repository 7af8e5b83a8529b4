"""Transport between equal masses on a GPU: the exact solver starts from an assignment."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment import native, native_large
from jaxmatch._assignment.methods import on_cuda
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.result import Transport, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._transport.native import counted
from jaxmatch._transport.problem import TransportProblem


def transport_on_cuda(problem: TransportProblem, *, maximize: bool) -> Transport:
    """Solves a batch in which problems may have equal masses. The GPU finds out which ones do."""
    return counted_on_cuda(problem, maximize=maximize)[0]


def counted_on_cuda(problem: TransportProblem, *, maximize: bool) -> tuple[Transport, Array]:
    """The result, and `i32[..., 2]`: the number of bids and the number of pivots."""
    start_col, col_dual = starts(problem, maximize)
    problem = problem._replace(col_dual=col_dual)
    return counted(problem, maximize=maximize, platform="cuda", start_col=start_col)


def may_be_equal(problem: TransportProblem) -> bool:
    """Whether the shapes allow an assignment of all rows, of a size that the kernels support."""
    if is_symbolic(problem.cost.shape):
        return False
    *batch, n, m = problem.cost.shape
    others = (problem.row_mask, problem.col_mask, problem.moved)
    fits = native.fits_cuda(problem.cost) or native_large.fits_large(problem.cost, None)
    return n == m and n > 1 and math.prod(batch) > 0 and fits and all(x is None for x in others)


def equal_masses(problem: TransportProblem) -> Bool[Array, "..."]:
    """Whether all rows have the same supply, and all columns the same demand."""
    supply, demand = problem.supply, problem.demand
    same = (supply == supply[..., :1]).all(-1) & (demand == demand[..., :1]).all(-1)
    return same & (supply[..., 0] > 0)


def starts(
    problem: TransportProblem, maximize: bool
) -> tuple[Int[Array, "... n"], Float[Array, "... m"]]:
    """Start columns and column duals.

    A problem with equal masses starts from the columns and duals of an optimal assignment. Any
    other problem has columns −1 and the given duals.
    """
    equal = equal_masses(problem)
    given = problem.col_dual
    if given is None:
        given = jnp.full(problem.demand.shape, jnp.nan, result_float())
    nothing = jnp.full(problem.supply.shape, -1, jnp.int32)

    def assign(mask: Bool[Array, "..."] | None) -> tuple[Array, Array]:
        rows = None if mask is None else jnp.broadcast_to(mask[..., None], nothing.shape)
        assignment = AssignmentProblem(problem.cost, rows, rows, None, problem.col_dual)
        res = on_cuda(assignment, maximize=maximize)
        found = (equal & (res.status == Status.OPTIMAL))[..., None]
        dual = jnp.where(found, res.col_dual.astype(given.dtype), given)
        return jnp.where(found, res.col4row, nothing), dual

    # 0: no problem of the batch has equal masses, 1: some have, 2: all have. Case 2 needs no masks,
    # so the costs are not copied.
    some = equal.any().astype(jnp.int32) + equal.all().astype(jnp.int32)
    branches = [lambda: (nothing, given), lambda: assign(equal), lambda: assign(None)]
    return lax.switch(some, branches)

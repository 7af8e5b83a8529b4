"""What a solver of the campaign is, and how functions are called on a batch."""

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
from campaign import judges
from campaign.families import FLOATS, INTEGERS
from campaign.problems import Batch


ALL = (*FLOATS, *INTEGERS)
WIDER = ("float32", "float64", "int32", "int64")


@dataclasses.dataclass(frozen=True)
class Solver:
    """`solve` takes a batch and returns a result whose fields are NumPy arrays of the batch."""

    subject: str
    solve: Callable[[Batch], Any]
    judge: judges.Judge
    dtypes: tuple[str, ...] = ALL
    size: int = 1000  # of a batch
    compiled: bool = False  # a program for each shape and dtype, which takes seconds
    varied: bool = False  # though compiled, with all shapes and options
    twin: bool = False
    forms: tuple[str, ...] = ("usual", "empty")
    families: tuple[str, ...] = ()  # that differ for it, if not all
    # The same on several devices; None of what it returns says that this batch can't be divided.
    elsewhere: Callable[[Batch], Any] | None = None
    portable: bool = False  # the same bits by all vector instructions of the CPU


def _given(batch: Batch, traced: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays: dict[str, Any] = dict(batch.arrays)
    if traced:
        arrays = jax.tree.map(jnp.asarray, arrays)
    return arrays, dict(batch.options)


@lru_cache(maxsize=256)
def _program(function: Any, names: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    """Compiled once for all batches of a kind."""
    return jax.jit(lambda *arrays: function(**dict(zip(names, arrays, strict=True)),
                                            **dict(options)))  # fmt: skip


def call(function: Callable[..., Any], traced: bool = False, **more: Any) -> Any:
    """One call for the batch: on NumPy arrays, or in a compiled program."""

    def solve(batch: Batch) -> Any:
        with x64(batch.wide):
            arrays, options = _given(batch, traced)
            options |= more
            if not traced:
                return to_numpy(function(**arrays, **options))
            program = _program(function, tuple(arrays), tuple(sorted(options.items())))
            return to_numpy(program(*arrays.values()))

    return solve


def on_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the arrays of a graph, in place of the graph."""
    names = [field.name for field in dataclasses.fields(jm.BipartiteGraph)]

    def solve(**given: Any) -> Any:
        graph = jm.BipartiteGraph(**{name: given.pop(name) for name in names})
        return function(graph, **given)

    return solve


sparse_assignment = on_graph(jm.solve_sparse_assignment)
bipartite_matching = on_graph(jm.maximum_bipartite_matching)


def one_by_one(function: Callable[..., Any], **more: Any) -> Callable[[Batch], Any]:
    """One call for each problem, of functions that take no batches."""

    def solve(batch: Batch) -> Any:
        found = []
        with x64(batch.wide):
            for k in range(batch.count):
                given = jax.tree.map(lambda x: x[k], batch.arrays)  # noqa: B023
                found.append(to_numpy(function(**given, **batch.options, **more)))
        return jax.tree.map(lambda *x: np.stack(x), *found)

    return solve

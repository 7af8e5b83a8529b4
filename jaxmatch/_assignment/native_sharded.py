"""The target that solves one large assignment whose costs are divided over devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.results import assignment_fields, buffers
from jaxmatch._ffi.sizes import most, size


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int

# Cores lead nowhere if after so many pricings more than this part of the rows is free. Where they
# lead to the end it is a tenth after the first phase; where the nearest candidates are the wrong
# ones, as between far clusters, it was a half for hundreds of phases.
_LEAST_PRICINGS, _PART_FREE = 2, 4

METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")


class Exchanged(NamedTuple):
    """Of all devices, one after another: numbers, candidates of rows, and for each row a short list
    of the columns in which it has no slack."""

    mail: Int[Array, "p a"]
    cores: Int[Array, "p b"]
    lists: Int[Array, "p c"]


class Kept(NamedTuple):
    """What a device keeps between two calls, and what it has to tell the others."""

    control: Int[Array, " c"]
    scratch: Int[Array, " s"]
    cores: Int[Array, " b"]
    lists: Int[Array, " c"]
    mail: Int[Array, " a"]

    def _word(self, name: str) -> Int[Array, ""]:
        return self.control[size(f"large.control.{name}")]

    @property
    def done(self) -> Bool[Array, ""]:
        return self._word("stage") == size("large.stage.done")

    @property
    def leads_nowhere(self) -> Bool[Array, ""]:
        """Whether `"core"` has given up its cores, or finds too few pairs on them."""
        free, rows = self._word("free_rows"), self._word("rows")
        few = (self._word("pricings") >= _LEAST_PRICINGS) & (free > rows // _PART_FREE)
        return ~self.done & ((self._word("trees") != 0) | few)

    def asks_for(self, what: str) -> Bool[Array, ""]:
        """Whether "mail", "cores" or "lists" have to be exchanged before the next call."""
        return self._word("request") == size(f"large.request.{what}")


def most_devices() -> float:
    return most("large.most_devices")


def _sizes(n: int, m: int, masked: bool, method: str, rows: bool, devices: int) -> Kept:
    problem = (n, m, masked, rows, devices)
    has_cores = method == "core"
    return Kept(  # type: ignore[arg-type]
        size("large.control"),
        size("sharded.scratch.core" if has_cores else "sharded.scratch", *problem),
        size("sharded.cores", *problem) if has_cores else 0,
        size("sharded.lists", *problem),
        size("sharded.mail", *problem),
    )


def begin_divided(
    n: int, m: int, *, masked: bool, method: str, rows: bool, devices: int
) -> tuple[Kept, Exchanged]:
    """A state in which nothing has been done or said."""
    sizes = _sizes(n, m, masked, method, rows, devices)
    kept = Kept(*(jnp.zeros(size, jnp.int32) for size in sizes))
    heard = (jnp.zeros((devices, size), jnp.int32) for size in (sizes.mail, *sizes[2:4]))
    return kept, Exchanged(*heard)


def divided(
    costs: tuple[Array, ...],
    masks: tuple[Bool[Array, " n"] | None, Bool[Array, " m"] | None],
    here: Int[Array, ""],
    kept: Kept,
    heard: Exchanged,
    *,
    sides: tuple[int, int],
    metric: str | None,
    rows: bool,
    devices: int,
    maximize: bool,
    method: str,
) -> tuple[Assignment, Kept]:
    """On, until something has to be exchanged or all is done.

    `costs` is this device's part of a matrix; or with a metric the points `[d, k]` of its part of
    the divided side and those of the other side.
    """
    behind = {"row_mask": masks[0], "col_mask": masks[1]}
    behind |= {"other_points": costs[1] if len(costs) > 1 else None, "device": here}
    behind |= heard._asdict()
    operands = [costs[0], *(x for x in behind.values() if x is not None)]
    first = len(operands)
    operands += kept[:4]  # in whose memory what is kept goes on
    results = [*assignment_fields(*sides), *buffers([x.size for x in kept])]
    out = native_call(
        "jaxmatch_assignment_divided",
        operands,
        results,
        core_dims=[x.ndim for x in operands],
        aliases={first + k: 7 + k for k in range(4)},
        present=names_of(**behind),
        maximize=maximize,
        method=method,
        rows=rows,
        devices=devices,
        metric=metric or "sqeuclidean",
    )
    return Assignment(*out[:7]), Kept(*out[7:])

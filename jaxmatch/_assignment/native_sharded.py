"""The native target for one large assignment whose costs are sharded over devices.

For each row, the method `"core"` considers a set of candidate columns, and prices all other columns
from time to time.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.results import assignment_fields, buffers
from jaxmatch._ffi.sizes import most, size


# The method `"core"` has stalled if more than 1 / `_PART_FREE` of the rows are still free after
# `_LEAST_PRICINGS` pricings, which are passes over all costs. On problems where it converges, a
# tenth of the rows are free after the first step. On problems where the cheapest columns of a row
# are the wrong candidates, as between distant clusters, half of the rows stay free for hundreds of
# steps.
_LEAST_PRICINGS, _PART_FREE = 2, 4


class GatheredBlocks(NamedTuple):
    """The blocks that the p devices published, all-gathered."""

    reduction: Int[Array, "p a"]  # each device's terms of minima over all devices
    cores: Int[Array, "p b"]  # candidate sets of rows
    lists: Int[Array, "p c"]  # for each row a short list of tight columns (slack 0)
    packed: Int[Array, "p d"]  # candidate sets of selected rows


class DeviceState(NamedTuple):
    """The state of one device between two native calls, and the four blocks that it publishes."""

    control: Int[Array, " c"]
    scratch: Int[Array, " s"]
    cores: Int[Array, " b"]
    lists: Int[Array, " c"]
    packed: Int[Array, " d"]
    reduction: Int[Array, " a"]

    def _word(self, name: str) -> Int[Array, ""]:
        return self.control[size(f"large.control.{name}")]

    @property
    def done(self) -> Bool[Array, ""]:
        stage = self._word("stage")
        return (stage == size("large.stage.done")) | (stage < 0)  # stage < 0 after Ctrl-C

    @property
    def has_stalled(self) -> Bool[Array, ""]:
        """Whether `"core"` has switched to search trees over all costs, or matches too few rows."""
        free, rows = self._word("free_rows"), self._word("rows")
        few_matched = (self._word("pricings") >= _LEAST_PRICINGS) & (free > rows // _PART_FREE)
        return ~self.done & ((self._word("trees") != 0) | few_matched)

    def requests(self, block: str) -> Bool[Array, ""]:
        """Whether the next call needs this block of all devices: "reduction", "cores" or "lists".

        "some" stands for the whole block `packed`, and "few" for its first `few_packed()` words.
        """
        return self._word("request") == size(f"large.request.{block}")


def most_devices() -> float:
    return most("large.most_devices")


def _sizes(n: int, m: int, masked: bool, method: str, rows: bool, devices: int) -> dict[str, int]:
    """The lengths of the arrays of a `DeviceState`."""
    problem = (n, m, masked, rows, devices)
    has_cores = method == "core"
    return {
        "control": size("large.control"),
        "scratch": size("sharded.scratch.core" if has_cores else "sharded.scratch", *problem),
        "cores": size("sharded.cores", *problem) if has_cores else 0,
        "lists": size("sharded.lists", *problem),
        "packed": size("sharded.packed.some", *problem) if has_cores else 0,
        "reduction": size("sharded.reduction", *problem),
    }


def few_packed(n: int, m: int, *, masked: bool, method: str, rows: bool, devices: int) -> int:
    """The number of words at the beginning of `packed` that are gathered if it holds few rows."""
    assert method == "core"
    return size("sharded.packed.few", n, m, masked, rows, devices)


def empty_state(
    n: int, m: int, *, masked: bool, method: str, rows: bool, devices: int
) -> tuple[DeviceState, GatheredBlocks]:
    """The initial state of a device, and empty gathered blocks."""
    sizes = _sizes(n, m, masked, method, rows, devices)
    state = {name: jnp.zeros(size, jnp.int32) for name, size in sizes.items()}
    gathered = {
        name: jnp.zeros((devices, sizes[name]), jnp.int32) for name in GatheredBlocks._fields
    }
    return DeviceState(**state), GatheredBlocks(**gathered)


def sharded_assignment(
    costs: tuple[Array, ...],
    masks: tuple[Bool[Array, " n"] | None, Bool[Array, " m"] | None],
    device: Int[Array, ""],
    state: DeviceState,
    gathered: GatheredBlocks,
    *,
    sides: tuple[int, int],
    metric: str | None,
    rows: bool,
    devices: int,
    maximize: bool,
    method: str,
    auction: bool,
) -> tuple[Assignment, DeviceState]:
    """Solves until a block must be gathered or the solve is done.

    `auction`: whether `"core"` may run an auction. `costs` holds this device's shard of the matrix.
    With a metric it holds two sets of points `[d, k]`: this device's shard of the points on the
    sharded side, and all points of the other side.
    """
    optional = {"row_mask": masks[0], "col_mask": masks[1]}
    shard, *others = costs
    optional |= {"other_points": others[0] if others else None, "device": device}
    optional |= gathered._asdict()
    operands = [shard, *(x for x in optional.values() if x is not None)]
    first = len(operands)
    operands += state[:5]  # aliased, so updated in place; each call writes a new reduction block
    fields = assignment_fields(*sides)
    out = native_call(
        "jaxmatch_assignment_sharded",
        operands,
        [*fields, *buffers([x.size for x in state])],
        core_dims=[x.ndim for x in operands],
        aliases={first + k: len(fields) + k for k in range(5)},
        present=names_of(**optional),
        maximize=maximize,
        method="auction" if auction and method == "core" else method,
        rows=rows,
        devices=devices,
        metric=metric or "sqeuclidean",
    )
    return Assignment(*out[: len(fields)]), DeviceState(*out[len(fields) :])

"""The target that solves one large assignment whose costs are divided over devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp

from jaxmatch._assignment.native_large import CONTROL_WORDS, LARGE_METHODS, scratch_words
from jaxmatch._common.result import Assignment
from jaxmatch._ffi.call import native_call
from jaxmatch._ffi.results import assignment_fields, buffers


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int

# As in ffi/assignment/large/sharded/state.h.
_CLASSES, _CORE_WORDS, _MAIL_HEAD, _LIST_ROOM = 32, 12, 8, 15
_RELAY_AT, _DONE = 72, 6
# Words of Control in ffi/assignment/large/state.h.
_FREE_ROWS, _PRICINGS, _ROWS, _TREES = 2, 4, 8, 27

# Cores lead nowhere if after so many pricings more than this part of the rows is free. Where they
# lead to the end it is a tenth after the first phase; where the nearest candidates are the wrong
# ones, as between far clusters, it was a half for hundreds of phases.
_LEAST_PRICINGS, _PART_FREE = 2, 4

_GIVEN_POINTS = 32  # as in ffi/assignment/large/sharded/operands.h

# The numbers of Metric in ffi/assignment/large/point_costs.h.
METRICS = {"sqeuclidean": 0, "euclidean": 1, "l1": 2, "cosine": 3}

# What has to be exchanged before the next call: the numbers of Ask in
# ffi/assignment/large/sharded/state.h.
MAIL, CORES, LISTS = 1, 2, 3
MOST_DEVICES = _CLASSES


class Exchanged(NamedTuple):
    """Of all devices, one after another: numbers, candidates of rows, and for each row a short list
    of the columns in which it has no slack."""

    mail: Int[Array, "p a"]
    cores: Int[Array, "p b"]
    lists: Int[Array, "p c"]


class Kept(NamedTuple):
    """What a device keeps between two calls, and what it has to tell the others."""

    control: Int[Array, "96"]
    scratch: Int[Array, " s"]
    cores: Int[Array, " b"]
    lists: Int[Array, " c"]
    mail: Int[Array, " a"]

    @property
    def done(self) -> Bool[Array, ""]:
        return self.control[0] == _DONE

    @property
    def leads_nowhere(self) -> Bool[Array, ""]:
        """Whether `"core"` has given up its cores, or finds too few pairs on them."""
        free, rows = self.control[_FREE_ROWS], self.control[_ROWS]
        few = (self.control[_PRICINGS] >= _LEAST_PRICINGS) & (free > rows // _PART_FREE)
        return ~self.done & ((self.control[_TREES] != 0) | few)

    @property
    def asked(self) -> Int[Array, ""]:
        return self.control[_RELAY_AT]


def _sizes(n: int, m: int, masked: bool, method: str, rows: bool, devices: int) -> Kept:
    """Numbers of int32, as in ffi/assignment/large/sharded/operands.h."""
    each, other = (n // devices, m) if rows else (m // devices, n)
    with_cores = method == "core"
    cores = max(each * _CLASSES, other * (_CLASSES // devices)) * with_cores
    shorter = max(n, m) if masked else min(n, m)
    scratch = scratch_words(n, m, masked, "core" if with_cores else "tree")
    parts = (8 * max(n, m), 8 * shorter, 8 * shorter, 4 * (_LIST_ROOM + 1) * shorter)
    scratch += sum(-(-part // 256) * 64 for part in parts)
    lists = (1 + _LIST_ROOM) * shorter
    mail = 2 * (_MAIL_HEAD + 2 * max(n, m))
    return Kept(CONTROL_WORDS, scratch, _CORE_WORDS * cores, lists, mail)  # type: ignore[arg-type]


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
    given = sum(1 << bit for bit, x in enumerate(masks) if x is not None)
    given |= _GIVEN_POINTS if metric is not None else 0
    operands = [costs[0], *(x for x in masks if x is not None), *costs[1:], here, *heard]
    first = len(operands)
    operands += kept[:4]  # in whose memory what is kept goes on
    results = [*assignment_fields(*sides), *buffers([x.size for x in kept])]
    out = native_call(
        "jaxmatch_assignment_divided",
        operands,
        results,
        core_dims=[x.ndim for x in operands],
        aliases={first + k: 7 + k for k in range(4)},
        given=given,
        maximize=maximize,
        method=LARGE_METHODS[method],
        rows=rows,
        devices=devices,
        metric=0 if metric is None else METRICS[metric],
    )
    return Assignment(*out[:7]), Kept(*out[7:])

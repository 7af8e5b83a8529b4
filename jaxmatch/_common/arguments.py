"""Checks and conversions of user arguments to the arrays that solvers take."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.given import BOOLEAN, INTEGERS, NARROW, REAL, SOLVED, cut, require, typed
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, ArrayLike


R = TypeVar("R")

_MOST_STEPS = 10**9

_TYPES = "('bfloat16', 'float16', 'float32', 'float64', 'int32', 'int64')"
MUST = f"have one of the dtypes {_TYPES}"


def as_array(
    name: str,
    x: ArrayLike,
    place: Place = BY_JAX,
    dtypes: frozenset[np.dtype] = SOLVED,
    must: str = MUST,
    advice: str = "; cast it",
) -> Array:
    """Like NumPy's or JAX's `asarray`, but raises an error if JAX would truncate integers."""
    array = typed(name, x, dtypes, must, advice)
    if isinstance(array, np.ndarray) and array.dtype.itemsize == 8:
        array = cut(name, array)
    return (np.asarray if place.native else jnp.asarray)(array)  # type: ignore[return-value]


def solved_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype to which solvers convert numbers of a dtype that they do not read in place."""
    if dtype in NARROW:
        return np.dtype(np.int32)
    return np.dtype(np.float32) if dtype in (jnp.bfloat16, jnp.float16) else dtype


def check_name(name: str, given: Any, known: Iterable[Any]) -> None:
    names = [*known]  # a list: a dict raises a TypeError for an unhashable name
    if given not in names:
        raise ValueError(f"`{name}` must be one of {names}, got {given!r}.")


def as_count(name: str, given: Any) -> int:
    try:
        count = operator.index(given)
    except TypeError:
        count = 0
    if not 1 <= count <= _MOST_STEPS:
        static = "; it must be static in `jax.jit`" if isinstance(given, jax.core.Tracer) else ""
        raise ValueError(f"`{name}` must be an integer from 1 to 10^9, got {given!r}{static}.")
    return count


def as_seconds(name: str, given: Any) -> float:
    static = "; it must be static in `jax.jit`" if isinstance(given, jax.core.Tracer) else ""
    try:
        seconds = 0.0 if static else float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"`{name}` must be a positive number of seconds, got {given!r}{static}.")
    return seconds


def choices_of(options: type) -> dict[str, tuple[Any, ...]]:
    """For each key of a `TypedDict` whose type is a `Literal`, the allowed values."""
    hints = get_type_hints(options)
    return {name: get_args(hint) for name, hint in hints.items() if get_args(hint)}


def as_options(
    method: str,
    options: Mapping[str, Any] | None,
    known: Mapping[str, Any],
    choices: Mapping[str, Sequence[Any]],
    as_number: Callable[[str, Any], Any],
) -> tuple[tuple[str, Any], ...]:
    """The options of a method as a sorted, hashable tuple for `jit`.

    `as_number` checks and converts the options that have no entry in `choices`.
    """
    if not isinstance(options, (Mapping, NoneType)):
        raise TypeError(f"`options` must be a dict, got {type(options).__name__}.")
    checked: dict[str, Any] = {}
    for option, value in (options or {}).items():
        if option not in known:
            takes = f"takes the options {[*known]}" if known else "takes no options"
            raise ValueError(f"`options`: method {method!r} {takes}, got {option!r}.")
        name = f"options[{option!r}]"
        if option not in choices:
            checked[option] = as_number(name, value)
        elif isinstance(value, (str, int, np.integer)) and value in choices[option]:
            checked[option] = value if isinstance(value, str) else operator.index(value)
        else:
            raise ValueError(f"`{name}` must be one of {[*choices[option]]}, got {value!r}.")
    return tuple(sorted(checked.items()))


def as_result(
    result: Any,
    kind: type[R],
    fields: Mapping[str, tuple[int, ...]],
    beside: str,
    advice: str,
    argument: str = "result",
    place: Place = BY_JAX,
) -> R:
    """A copy of a result: `fields` as checked arrays, all other fields None.

    `fields`: the shape that each field must have. `beside`: what error messages call the arguments
    that determine these shapes.
    """
    require(argument, result, kind, advice)
    arrays = {}
    for field, shape in fields.items():
        dtypes, words = _KINDS[field]
        name = f"{argument}.{field}"
        x = as_array(name, getattr(result, field), place, dtypes, f"be {words}", "")
        if x.shape != shape:
            raise ValueError(
                f"`{name}` must have shape {shape} to go with {beside}, got {x.shape}."
            )
        arrays[field] = x
    others = {name: None for name in vars(result) if name not in arrays}
    return kind(**arrays, **others)


def as_assignment(
    result: Any,
    rows: tuple[int, ...],
    cols: tuple[int, ...],
    beside: str,
    place: Place = BY_JAX,
) -> Assignment:
    """An `Assignment` with only the fields that a check reads, of checked shapes and dtypes."""
    return as_result(
        result,
        Assignment,
        {"col4row": rows, "row4col": cols, "col_dual": cols},
        beside,
        "of pairs from elsewhere `Assignment.empty(shape).replace(col4row=..., row4col=..., "
        "col_dual=...)` makes one, without column duals nothing is proved; a result with "
        "capacities is verified by `check_capacitated_assignment`",
        place=place,
    )


# For each field of a result: its allowed dtypes, and the words for these in error messages.
_KINDS = {
    **dict.fromkeys(("col4row", "row4col", "cardinality", "count"), (INTEGERS, "integers")),
    **dict.fromkeys(("row_cover", "col_cover", "cycle"), (BOOLEAN, "boolean")),
    **dict.fromkeys(("source_side", "row_side", "col_side"), (BOOLEAN, "boolean")),
    **dict.fromkeys(
        ("row_dual", "col_dual", "mass", "value", "flow", "cost", "potential", "bottleneck"),
        (REAL - BOOLEAN, "real numbers"),
    ),
}

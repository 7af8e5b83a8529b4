"""Speeds up repeated calls outside of a trace by keeping what the first call worked out.

A solver checks its arguments, chooses where to run (see `jaxmatch._common.place`) and prepares a
native call. The prepared call depends only on the signature of the solver call: the shapes and
dtypes of its arrays, and its options. So later calls of the same signature on NumPy arrays run only
the prepared native call, provided that the solver computes nothing besides it. For JAX arrays, a
program is compiled after many calls of one signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxmatch._common import place as places
from jaxmatch._common.given import BOOLEAN, IN_PLACE
from jaxmatch._common.registered import fields_of
from jaxmatch._common.switches import compiled
from jaxmatch._ffi.host_call import Plan, call_by_plan, recorded_calls


Function = TypeVar("Function", bound=Callable[..., Any])

_MOST_SIGNATURES = 4096
_STATIC = frozenset([bool, int, str, NoneType])
_ARRAY = ("array",)  # stands for an array among static arguments


class _Object(NamedTuple):
    """Stands for an object of arrays, such as a graph, among static arguments."""

    kind: type
    arrays: tuple[str, ...]  # the names of its fields that are arrays
    static: tuple[tuple[str, Any], ...]  # its other fields

    @classmethod
    def of(cls, x: Any) -> _Object | None:
        names = fields_of(type(x))
        if names is None:
            return None
        return cls(type(x), names.arrays, tuple((name, getattr(x, name)) for name in names.static))

    def leaves(self, x: Any) -> list[Any]:
        return [getattr(x, name) for name in self.arrays]

    def build(self, leaves: Iterator[Any]) -> Any:
        return self.kind(**{name: next(leaves) for name in self.arrays}, **dict(self.static))


_DTYPES = IN_PLACE | BOOLEAN


class _Prepared(NamedTuple):
    """A native call whose operands are the caller's arrays.

    Its results are the fields of the solver's result, which is an object of the class `kind`.
    """

    plan: Plan
    order: tuple[int, ...]  # for each operand, its index among the caller's arrays
    kind: type
    fields: tuple[tuple[str, tuple[int, ...], np.dtype, int, int], ...]  # name, *Plan.results[k]

    def __call__(self, arrays: list[Any]) -> Any:
        memory = call_by_plan(self.plan, [arrays[k] for k in self.order])
        result = object.__new__(self.kind)
        result.__dict__.update(
            {
                name: np.ndarray(shape, dtype, memory[k], offset)
                for name, shape, dtype, k, offset in self.fields
            }
        )
        return result


def repeated(
    *looked_at: str, unread: frozenset[str] = frozenset(), **unless: str
) -> Callable[[Function], Function]:
    """Decorator of solvers.

    - `looked_at`: arguments whose values the function reads on the host. Calls with one of them are
      not compiled.
    - `unless`: maps an argument to its partner. If the argument is given without its partner, the
      function reads its values on the host, so such calls are neither prepared nor compiled.
    - `unread`: fields of arguments such as graphs whose values the function never reads.

    Calls with arguments other than plain arrays, registered objects of arrays, and options always
    run the function itself.
    """

    def decorate(function: Function) -> Function:
        names = tuple(inspect.signature(function).parameters)
        known: dict[Any, Callable[[list[Any]], Any] | int] = {}

        @lru_cache
        def program(given: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
            """Compiles the function; each array (`_ARRAY` in `given`) becomes a parameter."""

            def call(*arrays: Any) -> Any:
                left = iter(arrays)
                return function(**{name: _filled(x, left) for name, x in given})

            call.__name__ = call.__qualname__ = function.__name__
            return compiled()(call)

        def reads(kwargs: dict[str, Any]) -> bool:
            """Whether an argument is given without its partner in `unless`."""
            given = {name for name, x in kwargs.items() if x is not None}
            return any(x in given and other not in given for x, other in unless.items())

        def compiled_call(args: Any, kwargs: Any) -> Callable[[list[Any]], Any]:
            given = (dict(zip(names, args, strict=False)) | kwargs).items()
            run = program(tuple((name, _emptied(x)) for name, x in given))
            return lambda arrays: run(*arrays)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            arrays: list[Any] = []
            key = _signature(args, kwargs, arrays)
            if key is None:
                return function(*args, **kwargs)
            before = known.get(key, 0)
            if not isinstance(before, int):
                return before(arrays)
            if len(known) >= _MOST_SIGNATURES:
                known.clear()
            known[key] = before + 1
            if isinstance(arrays[0], jax.Array):
                often = before >= places.CALLS_BEFORE_COMPILATION
                if often and kwargs.keys().isdisjoint(looked_at) and not reads(kwargs):
                    known[key] = compiled_call(args, kwargs)
            elif not before and not reads(kwargs):
                result, prepared = _prepare(function, args, kwargs, arrays, unread)
                known[key] = prepared or 1
                return result
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def _emptied(x: Any) -> Any:
    """The argument without its arrays."""
    return x if type(x) in _STATIC else _Object.of(x) or _ARRAY


def _filled(x: Any, arrays: Iterator[Any]) -> Any:
    """The argument with these arrays, of which it takes as many as it has."""
    if x is _ARRAY:
        return next(arrays)
    return x.build(arrays) if type(x) is _Object else x


def _signature(args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[Any]) -> Any:
    """A hashable key: all that a call depends on except the values of its arrays.

    The arrays are appended to `arrays`. Returns None if the function itself must run: in a trace,
    without arrays, if NumPy and JAX arrays are mixed, if an array is not on one CPU, and if an
    argument must be converted.
    """
    key: list[Any] = [jax.config.jax_enable_x64]  # type: ignore[attr-defined]
    for x in (*args, *kwargs.values()):
        kind = type(x)
        if kind in _STATIC:
            key.append((kind, x))
            continue
        leaves = [x]
        if of_arrays := _Object.of(x):
            key.append(of_arrays)
            leaves = of_arrays.leaves(x)
        for leaf in leaves:
            kind = type(leaf)
            if not (kind is np.ndarray or places.is_on_cpu(leaf)) or leaf.dtype not in _DTYPES:
                return None
            if arrays and type(arrays[0]) is not kind:
                return None
            key += (leaf.shape, leaf.dtype)
            arrays.append(leaf)
    if not arrays or (type(arrays[0]) is np.ndarray and places.default_platform() != "cpu"):
        return None
    return type(arrays[0]), len(args), *kwargs, *key


def _prepare(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    arrays: list[np.ndarray],
    unread: frozenset[str],
) -> tuple[Any, _Prepared | None]:
    """Runs the function. Returns its result, and a prepared call for later calls, or None.

    A prepared call suffices if the function makes one native call, whose operands are exactly the
    given arrays, apart from `unread` ones, and returns the results of this call unchanged.
    """
    # Each argument gets its own view. The identity of the view tells which operand the argument
    # becomes, even if the caller passes one array twice.
    views = [x.view() for x in arrays]
    left, read = iter(views), []
    for x in (*args, *kwargs.values()):
        empty = _emptied(x)
        names = empty.arrays if type(empty) is _Object else [""] * (empty is _ARRAY)
        read += [name not in unread for name in names]

    def view(x: Any) -> Any:
        return _filled(_emptied(x), left)

    args, kwargs = tuple(map(view, args)), {name: view(x) for name, x in kwargs.items()}
    with recorded_calls() as calls:
        result = function(*args, **kwargs)
    at = {id(x): k for k, x in enumerate(views)}
    if len(calls) != 1:
        return result, None
    plan, operands, results = calls[0]
    order = tuple(at.get(id(x), -1) for x in operands)
    of_results = {id(x): k for k, x in enumerate(results)}
    fields = {
        name: of_results.get(id(x), -1) for name, x in getattr(result, "__dict__", {}).items()
    }
    if (
        sorted(order) != [k for k, is_read in enumerate(read) if is_read]
        or not fields
        or -1 in fields.values()
    ):
        return result, None
    return result, _Prepared(
        plan,
        order,
        type(result),
        tuple((name, *plan.results[k]) for name, k in fields.items()),
    )

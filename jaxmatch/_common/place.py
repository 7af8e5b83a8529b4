"""Where a problem is solved: by JAX, or directly on this host outside of a trace."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.result import result_float
from jaxmatch._common.switches import compiled
from jaxmatch._library import libraries


T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

# Problems in JAX arrays are solved by a native call, whose results are converted from NumPy arrays,
# or by a compiled program, which returns JAX arrays in a quarter of the time of that conversion.
# Compiling takes as long as 300 conversions. Each native call loses 3/4 of a conversion, so after
# 400 calls the loss equals the compile time. If the program is compiled then, no sequence of calls
# takes more than twice the optimal time.
CALLS_BEFORE_COMPILATION = 400
_CALLS_BEFORE_IDENTITY = 300  # the same for the compiled conversion of one array, see `to_jax`
_MOST_SIGNATURES = 4096


class Place(NamedTuple):
    """How a problem is solved, and whether its results are NumPy or JAX arrays."""

    native: bool  # solved by a native call on NumPy arrays
    x64: bool  # solved in 64 bits although `jax_enable_x64` is off
    numpy: bool  # results are NumPy arrays
    device: Any = None  # the device of the JAX arrays that a native call returns
    committed: bool = True  # whether those arrays are committed to the device

    @property
    def xp(self) -> Any:
        """The array module, NumPy or `jax.numpy`, of the solver's arguments."""
        return np if self.native else jnp

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """The context manager in which the problem is solved."""
        if self.native or not self.numpy:
            return jax.enable_x64(True) if self.x64 else _NO_CONTEXT
        context = contextlib.ExitStack()
        if self.x64:
            context.enter_context(jax.enable_x64(True))
        # In a surrounding trace, compute at once: NumPy arrays are not traced.
        context.enter_context(jax.ensure_compile_time_eval())
        return context

    def bring_home(self, result: T) -> T:
        """Converts the result to the kind of arrays that the caller passed."""
        if self.device is not None:
            return to_jax(result, self.device, self.committed)
        return result if self.native or not self.numpy else to_numpy(result)

    def by_jax(self) -> Place:
        """The same place for a solver without native code."""
        return self._replace(native=False, device=None)


BY_JAX = Place(native=False, x64=False, numpy=False)
NEVER_COMPILED = ("never compiled",)  # the `options` of `place_of` for functions in NumPy


def to_numpy(tree: T) -> T:
    """A copy of the pytree with NumPy arrays, which the caller may write into."""
    return jax.tree.map(np.array, tree)


_HERE = Place(native=True, x64=False, numpy=True)
_NO_CONTEXT = contextlib.nullcontext()

_current = contextvars.ContextVar("place", default=BY_JAX)


def current_place() -> Place:
    """Where the innermost function decorated by `in_full_precision` runs."""
    return _current.get()


def to_jax(tree: T, device: Any, committed: bool) -> T:
    """Converts a pytree of NumPy arrays to JAX arrays on a device.

    A compiled identity function converts several times as fast as `jax.device_put`. Compiling one
    pays off for scalars, for a shape and dtype that comes often, and for a pytree that comes often.
    """
    leaves, structure = jax.tree.flatten(tree)
    identity = _identity(device if committed else None)
    with _NO_CONTEXT if committed else jax.default_device(device):
        if came_often(_types(leaves), _CALLS_BEFORE_IDENTITY // max(len(leaves), 1)):
            return jax.tree.unflatten(structure, identity(*leaves))
        scalars = [x for x in leaves if x.ndim == 0]
        often = [x for x in leaves if x.ndim and came_often(_types([x]), _CALLS_BEFORE_IDENTITY)]
        known: dict[int, Any] = {}
        if scalars:
            known |= {id(x): y for x, y in zip(scalars, identity(*scalars), strict=True)}
        known |= {id(x): identity(x)[0] for x in often}
        others = [x for x in leaves if id(x) not in known]
        put = jax.device_put(others, device if committed else None)
        known |= {id(x): y for x, y in zip(others, put, strict=True)}
        return jax.tree.unflatten(structure, [known[id(x)] for x in leaves])


@functools.lru_cache(maxsize=64)
def _identity(device: Any) -> Callable[..., tuple[jax.Array, ...]]:
    """A compiled identity function. `device`: where its results are committed, if anywhere."""

    def identity(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        return arrays

    place = None if device is None else SingleDeviceSharding(device)
    return compiled(out_shardings=place)(identity)


def place_of(*arrays: Any, options: Hashable = None, native: bool = True) -> Place:
    """The place to solve a problem with these arrays, any of which may be None.

    `options`: a hashable key of all other arguments, which tells compiled programs apart; None if
    there is no native code for the problem. `native=False` means the same as `options=None`.

    If the first array is a JAX array, results are JAX arrays. Otherwise results are NumPy arrays if
    the problem is solved on this host, or if JAX would truncate its numbers to 32 bits.
    """
    options = options if native else None
    libraries.warn_without_cuda()
    device, committed = None, False
    for x in arrays:
        if isinstance(x, jax.Array):
            if isinstance(x, jax.core.Tracer) or type(x.sharding) is not SingleDeviceSharding:
                return BY_JAX
            device = device or next(iter(x.devices()))
            committed |= x.committed
    if isinstance(arrays[0], jax.Array):
        assert device is not None
        if options is None or device.platform != "cpu" or not libraries.has_cpu_library():
            return BY_JAX
        if options is not NEVER_COMPILED and _is_worth_compiling(arrays, options):
            return BY_JAX
        return Place(native=True, x64=False, numpy=False, device=device, committed=committed)
    x64 = result_float().itemsize == 4 and any(_is_wide(x) for x in arrays)
    on_cpu = (device.platform if device is not None else default_platform()) == "cpu"
    if not (on_cpu or x64):
        return BY_JAX
    native = options is not None and on_cpu and libraries.has_cpu_library()
    return Place(native=native, x64=x64, numpy=True)


def here(x: np.ndarray | jax.Array) -> Place | None:
    """The place of a native call on this array, or None if JAX must solve the problem."""
    libraries.warn_without_cuda()
    if not libraries.has_cpu_library():
        return None
    if isinstance(x, np.ndarray):
        return _HERE if default_platform() == "cpu" else None
    if not is_on_cpu(x):
        return None
    return _HERE._replace(numpy=False, device=next(iter(x.devices())), committed=x.committed)


def in_full_precision(
    main: str, *arrays: str, on_host: bool = False
) -> Callable[[Function], Function]:
    """Decorator for functions without native code: computes 64-bit NumPy input in 64 bits.

    It does so if one of these arguments has 64 bits: those that `main` and `arrays` name, `result`
    and `cut`. The argument `main` decides whether results are NumPy or JAX arrays.

    With `on_host`, outside of a trace on the CPU, the function gets only NumPy arrays, so that
    nothing is compiled. The function can tell by `current_place().native`.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @wraps(function)
        def in_place(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            others = dict(bound.arguments)
            numbers = [as_given(main, others.pop(main))]
            numbers += all_given(**{name: others.pop(name, None) for name in arrays})
            bound.arguments.update(zip((main, *arrays), numbers, strict=True))
            if others.get("row_axis") is not None or others.get("col_axis") is not None:
                return function(*bound.args, **bound.kwargs)
            numbers += jax.tree.leaves([others.pop(name, None) for name in ("result", "cut")])
            traced = [x for x in jax.tree.leaves(others) if isinstance(x, jax.Array)]
            place = place_of(*numbers, *traced)
            if on_host:
                place = _on_host(place, (*numbers, *traced))
            if place.native:
                return _run_on_host(function, bound, place)
            with place.precision():
                return place.bring_home(function(*bound.args, **bound.kwargs))

        return in_place  # type: ignore[return-value]

    return decorate


def _on_host(place: Place, arrays: tuple[Any, ...]) -> Place:
    """The place for a function that can compute in NumPy: on the CPU it gets NumPy arrays."""
    if place.numpy:
        return place._replace(native=True)
    known = [x for x in arrays if isinstance(x, jax.Array)]
    if not isinstance(arrays[0], jax.Array) or not all(map(is_on_cpu, known)):
        return place
    device, committed = next(iter(arrays[0].devices())), any(x.committed for x in known)
    return place._replace(native=True, device=device, committed=committed)


def is_on_cpu(x: Any) -> bool:
    """Whether x is a JAX array outside of a trace, on one device that is a CPU."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    if type(x.sharding) is not SingleDeviceSharding:
        return False
    return next(iter(x.devices())).platform == "cpu"


def _run_on_host(function: Callable[..., T], bound: inspect.BoundArguments, place: Place) -> T:
    """Calls a function with all JAX arrays, also those in pytrees, converted to NumPy arrays."""
    arguments = jax.tree.map(_unless_key, (bound.args, bound.kwargs))
    token = _current.set(place)
    try:
        # In a surrounding trace, compute at once: none of these arrays is traced.
        with place.precision(), jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
            result = jax.tree.map(np.asarray, function(*arguments[0], **arguments[1]))
    finally:
        _current.reset(token)
    return place.bring_home(result)


def _unless_key(x: Any) -> Any:
    """Converts a JAX array of numbers to NumPy. Random keys stay: the function rejects them."""
    is_numbers = isinstance(x, jax.Array) and not jnp.issubdtype(x.dtype, jax.dtypes.extended)
    return np.asarray(x) if is_numbers else x


def _is_wide(x: Any) -> bool:
    """Whether x is a NumPy array that needs 64 bits in a solver, where uint32 becomes int64."""
    if x is None or isinstance(x, (bool, int, float, jax.Array)):
        return False
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype in _WIDE


_WIDE = tuple(map(np.dtype, ("float64", "int64", "uint32", "uint64")))


def default_platform() -> str:
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def _is_worth_compiling(arrays: tuple[Any, ...], options: Hashable) -> bool:
    """Whether so many problems of these shapes, dtypes and options came that compiling pays off."""
    return came_often((_types(arrays), options), CALLS_BEFORE_COMPILATION)


def _types(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([None if x is None else (np.shape(x), getattr(x, "dtype", None)) for x in arrays])


def came_often(key: Hashable, calls: int) -> bool:
    """Counts a call with this key. Returns whether at least `calls` calls with it came before."""
    if len(_calls) >= _MOST_SIGNATURES:
        _calls.clear()
    before = _calls.get(key, 0)
    _calls[key] = before + 1
    return before >= calls


_calls: dict[Hashable, int] = {}

"""Conversion of user arguments to NumPy or JAX arrays of unchanged dtype.

Errors name the argument, what was expected and what to do.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from jaxmatch._common.typing import ArrayLike


def _dtypes(names: str) -> frozenset[np.dtype]:
    return frozenset(map(jnp.dtype, names.split()))


# The dtypes that solvers take. Arrays of narrow dtypes are widened, all others are read in place.
NARROW = _dtypes("bool int8 uint8 int16 uint16")
IN_PLACE = _dtypes("bfloat16 float16 float32 float64 int32 int64")
SOLVED = NARROW | IN_PLACE

# `_signed` converts these to int64, or to int32 in JAX without x64.
UNSIGNED = _dtypes("uint32 uint64")

BOOLEAN = _dtypes("bool")
INTEGERS = _dtypes("int8 uint8 int16 uint16 int32 uint32 int64 uint64")
REAL = SOLVED | INTEGERS

_PYTHON_NUMBERS = frozenset([bool, int, float])


def on_host(name: str, x: ArrayLike, built: str) -> np.ndarray:
    """x as a NumPy array on the host. `built`: what is built from it, "graph" or "network"."""
    x = as_given(name, x)
    refuse_tracer(name, x, built)
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.extended):
        raise TypeError(f"`{name}` must hold numbers, got {x.dtype}.")
    return np.asarray(x)


def refuse_tracer(name: str, x: Any, built: str) -> None:
    """Raises an error for tracers: the "graph" or "network" (`built`) is built on the host."""
    if isinstance(x, jax.core.Tracer):
        raise TypeError(
            f"`{name}` is traced by `jit`, `vmap` or `grad`, but {built}s are built on the host. "
            f"Build the {built} outside and pass it in: it is a pytree of arrays."
        )


def as_given(name: str, x: ArrayLike) -> Any:
    """x as a NumPy or JAX array, converted from a list if it is one. Python numbers stay as is."""
    if isinstance(x, jax.Array) or type(x) in _PYTHON_NUMBERS:
        return x
    array = x if type(x) is np.ndarray else _of_others(name, x)
    if isinstance(array, np.ndarray) and array.dtype not in REAL:
        return _of_other_dtype(array)
    return array


def all_given(**arguments: ArrayLike | None) -> tuple[Any, ...]:
    """`as_given` for each argument that is not None."""
    return tuple([None if x is None else as_given(name, x) for name, x in arguments.items()])


def typed(
    name: str, x: ArrayLike, dtypes: frozenset[np.dtype], must: str, advice: str = "; cast it"
) -> Any:
    """x as an array of one of the `dtypes`. `must` describes these dtypes in the error message."""
    value = as_given(name, x)
    array = np.asarray(value) if type(value) in _PYTHON_NUMBERS else value
    if array.dtype in dtypes:
        return array
    if array.dtype in UNSIGNED and np.dtype(np.int64) in dtypes:
        return _signed(name, array)
    raise TypeError(f"`{name}` must {must}, got {_words(array.dtype)}{advice}.")


def numeric(name: str, x: Any, *, real: bool = False) -> Any:
    """x as an array or a number. Raises an error for strings, dates and other objects."""
    array = x if isinstance(x, jax.Array) else as_given(name, x)
    if real and type(array) not in _PYTHON_NUMBERS and array.dtype.kind == "c":
        raise TypeError(f"`{name}` must hold real numbers, got {array.dtype}.")
    if isinstance(x, jax.Array):
        if jnp.issubdtype(x.dtype, jax.dtypes.extended):
            raise TypeError(f"`{name}` must hold numbers, got {x.dtype}.")
        return x
    if isinstance(array, np.ndarray) and not (
        array.dtype == bool or jnp.issubdtype(array.dtype, np.number)
    ):
        raise TypeError(f"`{name}` must hold numbers, got {_words(array.dtype)}.")
    return array


def _of_other_dtype(array: np.ndarray) -> np.ndarray:
    """Converts numbers in foreign byte order, in extended precision, or stored as Python objects.

    Returns the array itself if no dtype in `REAL` holds its numbers exactly.
    """
    if not array.dtype.isnative:
        return as_given("", array.astype(array.dtype.newbyteorder("=")))
    if array.dtype == np.longdouble:
        double = array.astype(np.float64)
        return double if np.array_equal(double, array, equal_nan=True) else array
    return _of_objects(array) if array.dtype == object else array


def _of_objects(array: np.ndarray) -> np.ndarray:
    """Converts numbers of Python and pandas to bool, int64 or float64. Missing values become NaN.

    Returns an array of objects if some are not numbers, or are integers of more than 64 bits.
    """
    kinds = {type(x) for x in array.flat}
    if missing := {kind for kind in kinds if kind.__name__ == "NAType"}:
        is_missing = np.reshape([type(x) in missing for x in array.flat], array.shape)
        array, kinds = np.where(is_missing, np.nan, array), (kinds - missing) | {float}
    numbers: list[tuple[tuple[type, ...], type]] = [
        ((bool, np.bool_), np.bool_),
        ((bool, np.bool_, int, np.integer), np.int64),
        ((bool, np.bool_, int, np.integer, float, np.floating), np.float64),
    ]
    for known, dtype in numbers:
        if kinds and all(issubclass(kind, known) for kind in kinds):
            try:
                return array.astype(dtype)
            except OverflowError:  # an integer beyond 64 bits
                return array
    return array


def _signed(name: str, array: Any) -> Any:
    """Converts unsigned integers to signed ones.

    Raises an error for numbers that do not fit. In a trace, and in arrays on several devices, such
    numbers become the greatest signed number instead.
    """
    single = isinstance(getattr(array, "sharding", None), SingleDeviceSharding)
    if isinstance(array, jax.core.Tracer) or (isinstance(array, jax.Array) and not single):
        to = jnp.dtype(jax.dtypes.canonicalize_dtype(np.int64))
        most = jnp.asarray(min(jnp.iinfo(array.dtype).max, jnp.iinfo(to).max), array.dtype)
        return jnp.minimum(array, most).astype(to)
    if isinstance(array, jax.Array):
        here = cut(name, _signed(name, np.asarray(array)))
        return jnp.asarray(here, device=array.sharding if array.committed else None)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(
            f"`{name}` holds {array.max()}, and integers must be below 2^63. Scale them down, or "
            "pass floats; as a cost or a capacity, +inf is what has no bound."
        )
    return array.astype(np.int64)


def cut(name: str, array: np.ndarray) -> np.ndarray:
    """Converts to the canonical JAX dtype; raises an error if integers do not fit."""
    kept = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    if array.dtype.kind in "iu" and kept != array.dtype and array.size:
        fits = np.iinfo(kept)
        if array.min() < fits.min or array.max() > fits.max:
            raise ValueError(
                f"`{name}` holds integers that do not fit {kept}, to which JAX would cut "
                f"{array.dtype}. Set `jax_enable_x64`, or scale them down."
            )
    return array.astype(kept, copy=False)


def _words(dtype: Any) -> str:
    kinds = {"O": "Python objects", "S": "strings", "U": "strings"}
    kind = kinds.get(getattr(dtype, "kind", ""))
    return f"{kind} (dtype {dtype})" if kind else str(dtype)


def _of_others(name: str, x: Any) -> Any:
    """Converts anything but plain arrays and numbers to an array, or raises an error."""
    parts = x if isinstance(x, (list, tuple)) else (x,)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise TypeError(
            f"`{name}` must be without a mask, got a masked array of NumPy: pass `.filled(value)` "
            "of it; as a cost, +inf forbids a pair."
        )
    if hasattr(x, "tocsr") or hasattr(x, "todense"):
        raise TypeError(
            f"`{name}` must be a dense array, got a sparse {type(x).__name__}: pass `.toarray()` "
            "or `.todense()` of it, with 0 where nothing is stored. Graphs and networks are built "
            "of sparse matrices by `BipartiteGraph.from_scipy` and `FlowNetwork.from_scipy`."
        )
    if isinstance(x, np.ndarray):
        return np.asarray(x)  # x is of a subclass, such as `np.matrix` or `np.memmap`
    if (convert := getattr(x, "__jax_array__", None)) is not None:
        return convert()
    try:
        try:
            array = np.asarray(x)
        except jax.errors.TracerArrayConversionError:  # a list of tracers
            return jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise type(error)(f"`{name}` must be an array of one shape and dtype: {error}") from None
    if array.ndim == 0 and array.dtype == object:
        own = type(x).__module__.startswith("jaxmatch")
        swapped = "; it seems to have changed places with another argument" if own else ""
        raise TypeError(f"`{name}` must be an array, got {_kind(x)}{swapped}.")
    return array


def _kind(x: Any) -> str:
    return "None" if x is None else type(x).__name__


def require(name: str, x: Any, kind: type, advice: str) -> None:
    """Raises an error unless x is an instance of `kind`, a class of this library."""
    if not is_of_kind(x, kind):
        what = f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
        raise TypeError(f"`{name}` must be {what}, got {_kind(x)}; {advice}.")


def is_of_kind(x: Any, kind: type) -> bool:
    """Whether x is an instance of `kind`, or of the same class from an earlier import."""
    name = (kind.__module__, kind.__qualname__)
    return isinstance(x, kind) or any(
        (c.__module__, c.__qualname__) == name for c in type(x).__mro__
    )

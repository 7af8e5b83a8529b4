"""Registers dataclasses as pytrees that `jax.export` can serialize in function signatures."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import jax
from jax import export


T = TypeVar("T")


class Fields(NamedTuple):
    """The names of the fields of a registered class, in the order of the pytree's leaves."""

    arrays: tuple[str, ...]
    static: tuple[str, ...]


_fields: dict[type, Fields] = {}


def fields_of(cls: type) -> Fields | None:
    """The fields of a registered class; None for any other class."""
    return _fields.get(cls)


def registered(cls: type[T]) -> type[T]:
    """Like the decorator `jax.tree_util.register_dataclass`, but also for exported functions.

    An exported function stores the name of the class and the values of its static fields.
    """
    static = [f.name for f in dataclasses.fields(cls) if f.metadata.get("static")]  # type: ignore[arg-type]

    def to_bytes(values: Any) -> bytes:
        return json.dumps(dict(zip(static, values, strict=True))).encode()

    def from_bytes(data: bytes) -> Any:
        values = json.loads(data)
        return tuple(values[name] for name in static)

    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    _fields[cls] = Fields(tuple(x for x in names if x not in static), tuple(static))
    jax.tree_util.register_dataclass(cls)
    with _once():
        export.register_pytree_node_serialization(
            cls,
            serialized_name=f"jaxmatch.{cls.__name__}",
            serialize_auxdata=to_bytes,
            deserialize_auxdata=from_bytes,
        )
    return cls


def registered_tuple(cls: type[T]) -> type[T]:
    """Decorator that makes a named tuple serializable in the signature of exported functions."""
    with _once():
        export.register_namedtuple_serialization(cls, serialized_name=f"jaxmatch.{cls.__name__}")
    return cls


@contextlib.contextmanager
def _once() -> Iterator[None]:
    """Ignores the error of a second registration, after the package was imported again.

    JAX keeps the class of the first import, and deserialized functions use that class.
    """
    try:
        yield
    except ValueError as error:
        if "Duplicate serialization registration" not in str(error):
            raise

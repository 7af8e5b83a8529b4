"""Batches of graphs or networks of different sizes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import jax

from jaxmatch._common.given import refuse_tracer, require


T = TypeVar("T")


def to_stack(name: str, items: Sequence[T], kind: type[T], built: str, advice: str) -> list[T]:
    """Checks a list of graphs or networks of one batch shape, and fetches them as NumPy arrays."""
    if not isinstance(items, Sequence):
        raise TypeError(f"`{name}` must be a list of {built}s, got {type(items).__name__}.")
    if len(items) == 0:
        raise ValueError(f"`{name}` must hold at least one {built}.")
    for k, item in enumerate(items):
        require(f"{name}[{k}]", item, kind, advice)
        for field, x in vars(item).items():
            refuse_tracer(f"{name}[...].{field}", x, built)
    found: list[Any] = jax.device_get(list(items))
    for k, item in enumerate(found):
        if item.batch_shape != found[0].batch_shape:
            raise ValueError(
                f"`{name}` must have one batch shape, but {name}[{k}] has {item.batch_shape} "
                f"and {name}[0] has {found[0].batch_shape}."
            )
    return found


def padded_size(name: str, asked: int | None, sizes: list[int], most: int) -> int:
    """The size to which all items are padded: `asked`, or the largest of `sizes`."""
    if asked is None:
        return max(sizes)
    asked = operator.index(asked)
    if not max(sizes) <= asked <= most:
        raise ValueError(
            f"`{name}` must be from {max(sizes)}, the largest, to {most}; got {asked}."
        )
    return asked

"""Equality and hash of pytrees whose leaves may be arrays."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer


class EqualByValue:
    """Two objects are equal if their static fields and their leaves are equal.

    Arrays are equal if shape, dtype and values are. A tracer has no value yet and equals only
    itself. A Python number never equals an array, because JAX promotes them differently.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        (mine, form), (others, other_form) = jax.tree.flatten(self), jax.tree.flatten(other)
        return form == other_form and all(map(_is_same, mine, others))

    def __hash__(self) -> int:
        leaves, form = jax.tree.flatten(self)
        return hash((form, *((x.shape, x.dtype) if _is_array(x) else x for x in leaves)))


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic, jax.Array))


def _is_same(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return False
    if _is_array(x) and _is_array(y):
        same_type = x.shape == y.shape and x.dtype == y.dtype
        return same_type and bool((np.asarray(x) == np.asarray(y)).all())
    return not _is_array(x) and not _is_array(y) and x == y

"""Shapes of functions that are exported with symbolic dimensions (`jax.export.symbolic_shape`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np


def is_symbolic(shape: Sequence[Any]) -> bool:
    """Whether any dimension is known only when the exported function is called."""
    return not all(isinstance(n, (int, np.integer)) for n in shape)


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Broadcasts by NumPy, ten times as fast as JAX; by JAX if dimensions are symbolic."""
    of = jnp if any(map(is_symbolic, shapes)) else np
    return of.broadcast_shapes(*shapes)


def require_sizes(name: str, sizes: Sequence[Any], pad: str) -> None:
    """Raises an error if sizes of a problem are symbolic where methods and buffers depend on them.

    `pad`: how to pad a problem to a greater size.
    """
    if is_symbolic(sizes):
        raise ValueError(
            f"`{name}` has the symbolic sizes ({', '.join(map(str, sizes))}), where only batch "
            "dimensions may be symbolic: methods and buffers depend on the size of a problem. "
            f"Export one function for each size, or one for the largest and {pad}."
        )


def is_at_most(name: str, n: Any, m: Any) -> bool:
    """Whether n <= m; an error if the constraints on symbolic sizes leave this open."""
    if not is_symbolic((n, m)):
        return n <= m
    try:
        return bool(n <= m)
    except Exception:  # JAX does not export the class of its error
        raise ValueError(
            f"The symbolic sizes ({n}, {m}) of `{name}` must tell which side is longer, got no "
            f"constraint that does; pass `constraints=['{n} <= {m}']` or `['{m} < {n}']` to "
            "`jax.export.symbolic_shape`."
        ) from None

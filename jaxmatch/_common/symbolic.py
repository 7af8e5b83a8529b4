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
    """The broadcast shape: by NumPy, which is ten times as fast, or by JAX for symbolic shapes."""
    of = jnp if any(map(is_symbolic, shapes)) else np
    return of.broadcast_shapes(*shapes)


def require_sizes(name: str, sizes: Sequence[Any], pad: str) -> None:
    """Raises an error if sizes are symbolic, for code whose methods or buffers depend on sizes.

    `pad`: how to pad a problem to a greater size, for the error message.
    """
    if is_symbolic(sizes):
        raise ValueError(
            f"`{name}` has the symbolic sizes ({', '.join(map(str, sizes))}), where only batch "
            "dimensions may be symbolic: methods and buffers depend on the size of a problem. "
            f"Export one function for each size, or one for the largest and {pad}."
        )


def is_at_most(name: str, n: Any, m: Any) -> bool:
    """Whether n <= m. Raises an error if n or m is symbolic and the constraints do not decide."""
    if not is_symbolic((n, m)):
        return n <= m
    try:
        return bool(n <= m)
    except Exception:  # the class of JAX's error has no public name
        raise ValueError(
            f"The symbolic sizes ({n}, {m}) of `{name}` must tell which side is longer, got no "
            f"constraint that does; pass `constraints=['{n} <= {m}']` or `['{m} < {n}']` to "
            "`jax.export.symbolic_shape`."
        ) from None

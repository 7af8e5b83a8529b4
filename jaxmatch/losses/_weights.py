"""Weights and masks of the two distributions of a distance."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jaxmatch._common.promotion import float_dtype, same_rank
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import broadcast_shapes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int


class Side:
    """The weights and the mask of one of the two distributions; `name` is for error messages."""

    def __init__(
        self,
        name: str,
        size: int,
        weight: ArrayLike | None,
        mask: ArrayLike | None = None,
        *,
        xp: Any = jnp,
    ):
        self.size, self.xp = size, xp
        self.weight = None if weight is None else as_floats(weight, xp=xp)[0]
        self.mask = None if mask is None else xp.asarray(mask)
        if self.mask is not None and self.mask.dtype != bool:
            raise TypeError(f"`{name}_mask` must be bool, got {self.mask.dtype}.")
        for kind, array in (("weight", self.weight), ("mask", self.mask)):
            broadcasts = kind == "mask" and array is not None and array.shape[-1:] in ((), (1,))
            if array is not None and array.shape[-1:] != (size,) and not broadcasts:
                raise ValueError(
                    f"`{name}_{kind}` must have shape [..., {size}], got {array.shape}."
                )

    @property
    def is_plain(self) -> bool:
        return self.weight is None and self.mask is None

    @property
    def batches(self) -> list[tuple[int, ...]]:
        return [array.shape[:-1] for array in (self.weight, self.mask) if array is not None]

    def count(self) -> Int[Array, "..."]:
        """The number of unmasked entries."""
        xp = self.xp
        if self.mask is None:
            return xp.asarray(self.size, xp.int32)
        shape = broadcast_shapes(self.mask.shape, (self.size,))
        return xp.broadcast_to(self.mask, shape).sum(-1, dtype=xp.int32)

    def masses(self) -> tuple[Float[Array, "... n"], Bool[Array, "..."]]:
        """The weights, 0 where masked, and whether they are valid. Invalid weights become ones.

        Weights are valid if none is negative and their sum is positive and finite.
        """
        xp = self.xp
        weight = xp.ones(self.size, result_float()) if self.weight is None else self.weight
        if self.mask is not None:
            mask, weight = same_rank(self.mask, weight)
            weight = xp.where(mask, weight, 0)
        total = weight.sum(-1, keepdims=True)
        valid = (weight >= 0).all(-1, keepdims=True) & (total > 0) & xp.isfinite(total)
        return xp.where(valid, weight, 1), valid[..., 0]

    def probabilities(self) -> tuple[Float[Array, "... n"], Bool[Array, "..."]]:
        """The weights of `masses`, divided by their sum, and whether they are valid."""
        weight, valid = self.masses()
        return weight / weight.sum(-1, keepdims=True), valid


def broadcast_batches(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        given = ", ".join(map(str, shapes))
        raise ValueError(f"The batch dimensions must broadcast, got {given}.") from None


def as_floats(*arrays: ArrayLike, xp: Any = jnp) -> list[Array]:
    converted = [xp.asarray(x) for x in arrays]
    dtype = float_dtype(*converted)
    return [x.astype(dtype) for x in converted]

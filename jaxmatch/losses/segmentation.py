"""Matching costs and losses of mask prediction, with MaskFormer's formulas.

The last axis of a mask holds its p points: all pixels of an image (`x.reshape(n, h * w)`), or
sampled points, which are the same for all masks. Points with a logit above 0 are inside the mask.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import common_dtype, same_rank
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, Bool, Float


@unchecked
@outside_of_jit("logits", "masks")
def sigmoid_mask_cost(
    logits: Float[Array, "... n p"], masks: Float[Array, "... m p"] | Bool[Array, "... m p"]
) -> Float[Array, "... n m"]:
    """Mean binary cross-entropy of every predicted mask against every target.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> logits = jnp.array([[9.0, 9.0, -9.0], [-9.0, -9.0, 9.0]])
    >>> masks = jnp.array([[False, False, True], [True, True, False]])
    >>> jm.losses.sigmoid_mask_cost(logits, masks).round(1)
    Array([[9., 0.],
           [0., 9.]], dtype=float32)

    **Arguments:**

    - `logits`: `[..., n, p]`. Half precision is computed in float32.
    - `masks`: `[..., m, p]`, bool or numbers between 0 and 1; leading axes broadcast.

    **Returns:** `[..., n, m]`, exact to rounding for finite logits of any size. NaN in a target
    (padding) does not affect the values of other targets. Replace it by 0 if you need gradients.

    **Time and memory:** two matrix products; no array of size n·m·p.

    **Source:** Cheng et al., *Masked-attention mask transformer for universal image segmentation*
    (Mask2Former), CVPR 2022, section 3.2; Cheng, Schwing and Kirillov, *Per-pixel classification is
    not all you need for semantic segmentation* (MaskFormer), NeurIPS 2021.
    """
    logits, masks = _as_floats(logits, masks)
    # All terms are positive, so nothing cancels. In `softplus(x) - x t` large logits would cancel.
    inside, outside = jax.nn.softplus(-logits), jax.nn.softplus(logits)
    total = _product(inside, masks) + _product(outside, 1 - masks)
    return total / max(logits.shape[-1], 1)


@unchecked
@outside_of_jit("logits", "masks")
def dice_cost(
    logits: Float[Array, "... n p"],
    masks: Float[Array, "... m p"] | Bool[Array, "... m p"],
    *,
    smooth: float = 1.0,
) -> Float[Array, "... n m"]:
    """Dice loss of every predicted mask against every target: 1 − 2 overlap / (sum of sizes).

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> logits = jnp.array([[9.0, 9.0, -9.0, -9.0], [-9.0, -9.0, 9.0, 9.0]])
    >>> masks = jnp.array([[True, True, False, False]])
    >>> [f"{x:.2f}" for x in jm.losses.dice_cost(logits, masks)[:, 0]]
    ['0.00', '0.80']

    **Arguments:**

    - `logits`, `masks`: as in [`sigmoid_mask_cost`][jaxmatch.losses.sigmoid_mask_cost].
    - `smooth`: added to numerator and denominator, so that the loss of two empty masks is 0.
      MaskFormer uses 1.

    **Returns:** `[..., n, m]`, between 0 and 1.

    **Time and memory:** a matrix product; no array of size n·m·p.

    **Source:** Milletari, Navab and Ahmadi, *V-Net*, 3DV 2016, without the squares, as in
    MaskFormer.
    """
    logits, masks = _as_floats(logits, masks)
    p = jax.nn.sigmoid(logits)
    sizes = p.sum(-1)[..., :, None] + masks.sum(-1)[..., None, :]
    return 1 - (2 * _product(p, masks) + smooth) / (sizes + smooth)


@unchecked
@outside_of_jit("logits", "masks")
def sigmoid_mask_loss(
    logits: Float[Array, "... m p"], masks: Float[Array, "... m p"] | Bool[Array, "... m p"]
) -> Float[Array, "... m"]:
    """Mean binary cross-entropy of each mask against its counterpart.

    It is the diagonal of [`sigmoid_mask_cost`][jaxmatch.losses.sigmoid_mask_cost], for matched
    pairs. Use it as the `pair_loss` of [`hungarian_loss`][jaxmatch.losses.hungarian_loss].

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> logits = jnp.array([[0.0, 0.0], [1e4, -1e4]])
    >>> loss = jm.losses.sigmoid_mask_loss(logits, jnp.array([[True, False], [True, False]]))
    >>> [f"{x:.4f}" for x in loss]
    ['0.6931', '0.0000']

    **Arguments:**

    - `logits`: `[..., m, p]`. Half precision is computed in float32.
    - `masks`: `[..., m, p]`, bool or numbers between 0 and 1; leading axes broadcast.

    **Returns:** `[..., m]`; the gradient is bounded by 1/p for each logit.
    """
    logits, masks = _as_floats(logits, masks)
    each = masks * jax.nn.softplus(-logits) + (1 - masks) * jax.nn.softplus(logits)
    return each.sum(-1) / max(logits.shape[-1], 1)


@unchecked
@outside_of_jit("logits", "masks")
def dice_loss(
    logits: Float[Array, "... m p"],
    masks: Float[Array, "... m p"] | Bool[Array, "... m p"],
    *,
    smooth: float = 1.0,
) -> Float[Array, "... m"]:
    """Dice loss of each mask against its counterpart.

    It is the diagonal of [`dice_cost`][jaxmatch.losses.dice_cost], for matched pairs, and takes the
    same arguments.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.dice_loss(jnp.array([[1e4, -1e4]]), jnp.array([[True, False]]))
    Array([0.], dtype=float32)

    **Returns:** `[..., m]`, between 0 and 1.
    """
    logits, masks = _as_floats(logits, masks)
    p = jax.nn.sigmoid(logits)
    sizes = p.sum(-1) + masks.sum(-1)
    return 1 - (2 * (p * masks).sum(-1) + smooth) / (sizes + smooth)


def _as_floats(logits: Array, masks: Array) -> list[Array]:
    """Casts logits and masks to one dtype and rank."""
    logits, masks = jnp.asarray(logits), jnp.asarray(masks)
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise TypeError(f"`logits` must be floats, got {logits.dtype}.")
    if min(logits.ndim, masks.ndim) < 2 or logits.shape[-1] != masks.shape[-1]:
        raise ValueError(
            "`logits` and `masks` must have two dimensions or more, the last of the same points, "
            f"got {logits.shape} and {masks.shape}; flatten images, as `x.reshape(n, h * w)`."
        )
    dtype = common_dtype(logits, jnp.float32)
    return same_rank(logits.astype(dtype), masks.astype(dtype))


def _product(x: Float[Array, "... n p"], y: Float[Array, "... m p"]) -> Float[Array, "... n m"]:
    """x yᵀ in full precision. By default GPUs and TPUs round the factors to 10 bits or fewer."""
    return jnp.matmul(x, y.swapaxes(-1, -2), precision=lax.Precision.HIGHEST)

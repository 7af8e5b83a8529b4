"""Permutation-invariant training (PIT): outputs in any order, as in speech separation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import float_dtype, same_rank
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch.losses.hungarian import HungarianLoss, hungarian_loss


@unchecked
@outside_of_jit("outputs", "targets", "target_mask", "output_mask")
def permutation_invariant_loss(
    outputs: Float[Array, "... n time"],
    targets: Float[Array, "... m time"],
    *,
    pair_cost: Callable[[Array, Array], Float[Array, "... n m"]],
    target_mask: ArrayLike | None = None,
    output_mask: ArrayLike | None = None,
) -> HungarianLoss:
    """The mean loss over pairs in the best order of the outputs: utterance-level PIT.

    The order is optimal for any number of speakers; enumerating all orders is practical only up to
    about six. Cost and loss are the same function, so the gradient is exactly the gradient of the
    minimum (envelope theorem). Ties between orders are broken deterministically.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> time = jnp.arange(8000) / 8000
    >>> targets = jnp.sin(2 * jnp.pi * jnp.array([[440.0], [660.0]]) * time)
    >>> outputs = targets[::-1] + 0.1 * jnp.cos(2 * jnp.pi * 100 * time)
    >>> result = jm.losses.permutation_invariant_loss(
    ...     outputs, targets, pair_cost=jm.losses.negative_si_snr
    ... )
    >>> result.matching.row4col.tolist(), f"{result.loss:.2f} dB"
    ([1, 0], '-20.00 dB')

    **Arguments:**

    - `outputs`: `[..., n, time]`; `time` may be any features.
    - `targets`: `[..., m, time]`, with the same leading axes or fewer.
    - `pair_cost(outputs, targets)`: a function such as
      [`negative_si_snr`][jaxmatch.losses.negative_si_snr]. It returns `[..., n, m]`, the loss of
      each output against each target, for any leading axes. For the matching it is called on all
      pairs. For the loss it is called on matched pairs only, with n = m = 1 and one more leading
      axis, so unmatched pairs have no backward pass.
    - `target_mask`: bool, broadcasts to `[..., m]`; False is padding, for utterances with fewer
      speakers.
    - `output_mask`: bool, broadcasts to `[..., n]`; False is an output that does not exist.

    **Returns:**

    A [`HungarianLoss`][jaxmatch.losses.HungarianLoss] whose `loss` is the mean over `num_matched`
    pairs, 0 if there are none. With more outputs than targets, the best outputs are matched. With
    fewer outputs than targets, some targets stay unmatched.

    **Status:** as in [`hungarian_loss`][jaxmatch.losses.hungarian_loss]: an unsolved problem has
    loss 0 and gradient 0, and is counted in `num_unsolved`. Padding may hold NaN.

    **Raises:** `ValueError` for shapes that do not fit.

    **Source:** Yu et al., *Permutation invariant training of deep models for speaker-independent
    multi-talker speech separation*, ICASSP 2017; Kolbæk et al., *Multitalker speech separation with
    utterance-level permutation invariant training*, IEEE/ACM TASLP 25 (2017).
    """
    outputs, targets = jnp.asarray(outputs), jnp.asarray(targets)
    if outputs.ndim < 2 or targets.ndim < 2:
        raise ValueError(
            "`outputs` must have shape [..., n, time] and `targets` [..., m, time], got "
            f"{outputs.shape} and {targets.shape}."
        )

    if target_mask is not None:
        # Keeps the contents of padding out of the derivative.
        targets = jnp.where(jnp.asarray(target_mask)[..., None], targets, 0)

    def matching_cost(o: Array, t: Array) -> Array:
        cost = pair_cost(o, t)
        if cost.shape[-2:] != (o.shape[-2], t.shape[-2]):
            raise ValueError(
                f"`pair_cost` must return [..., {o.shape[-2]}, {t.shape[-2]}] for outputs "
                f"{o.shape} and targets {t.shape}, got {cost.shape}."
            )
        return cost

    def pair_loss(o: Array, t: Array) -> Array:
        return pair_cost(o[..., :, None, :], t[..., :, None, :])[..., 0, 0]

    result = hungarian_loss(
        outputs,
        targets,
        matching_cost=matching_cost,
        pair_loss=pair_loss,
        target_mask=target_mask,
        output_mask=output_mask,
    )
    pairs = jnp.maximum(result.num_matched, 1).astype(result.loss.dtype)
    return dataclasses.replace(result, loss=result.loss / pairs)


@unchecked
@outside_of_jit("outputs", "targets")
def negative_si_snr(
    outputs: Float[Array, "... n time"],
    targets: Float[Array, "... m time"],
    *,
    zero_mean: bool = True,
    epsilon: float = 1e-8,
) -> Float[Array, "... n m"]:
    """Minus the scale-invariant signal-to-noise ratio of every output to every target, in dB.

    The signal s is the projection of an output o on the target, and the noise is the rest. The
    result is `−10 log10(|s|² / |o − s|²)`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> target = jnp.array([[1.0, -1.0, 1.0, -1.0]])
    >>> outputs = jnp.array([[2.0, -2.0, 2.0, -2.0], [1.1, -0.9, 0.9, -1.1]])
    >>> [f"{x:.1f} dB" for x in jm.losses.negative_si_snr(outputs, target)[:, 0]]
    ['-80.0 dB', '-20.0 dB']

    **Arguments:**

    - `outputs`: `[..., n, time]`. Half precision is computed in float32.
    - `targets`: `[..., m, time]`; leading axes broadcast against those of `outputs`.
    - `zero_mean`: first subtract the mean over time from outputs and targets.
    - `epsilon`: the fraction of the output's energy that is added to signal and to noise. The
      default limits the ratio to ±80 dB. The ratio stays invariant to scale.

    **Returns:**

    `[..., n, m]`, finite for finite inputs if their energy does not overflow. If the output or the
    target is silent (energy 0), the result is 80 dB, with a gradient of 0.

    **Time and memory:** O(n·m·time); the forward pass alone needs no array of that size.

    **Source:** Le Roux, Wisdom, Erdogan and Hershey, *SDR - half-baked or well done?*, ICASSP 2019.
    """
    o, t = jnp.asarray(outputs), jnp.asarray(targets)
    dtype = float_dtype(o, t)
    o, t = same_rank(*(_unit(x.astype(dtype), zero_mean) for x in (o, t)))
    cosine = jnp.matmul(o, t.swapaxes(-1, -2), precision=lax.Precision.HIGHEST)
    # The energy of `rest` equals 1 - cosine^2, but that expression cancels for good outputs.
    rest = o[..., :, None, :] - cosine[..., None] * t[..., None, :, :]
    silent = (o == 0).all(-1)[..., :, None] | (t == 0).all(-1)[..., None, :]
    noise = jnp.where(silent, 1, (rest**2).sum(-1))
    return 10 * (jnp.log10(noise + epsilon) - jnp.log10(cosine**2 + epsilon))


def _unit(x: Float[Array, "... time"], zero_mean: bool) -> Float[Array, "... time"]:
    """Normalises signals to length 1; silent signals stay 0."""
    if zero_mean:
        x = x - x.mean(-1, keepdims=True)
    energy = (x**2).sum(-1, keepdims=True)
    silent = energy == 0
    return jnp.where(silent, 0, x / jnp.sqrt(jnp.where(silent, 1, energy)))

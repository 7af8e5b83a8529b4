"""The noise of perturbed estimators: a documented function of key, sample and place.

The number at flat place e (over the batch and the problem, row-major) of sample s is made from
the 32 bits of Threefry-2x32 (Salmon et al., SC 2011) under the two words of the key and the
counter (s, e), its two output words combined by xor: k, the upper 23 of them, gives
u = (k + ½) / 2^23, and u the noise. So noise can be made anywhere in any order, a problem's does
not depend on how many follow it in the batch, and a kernel that makes it on the fly agrees with
this to rounding (ffi/include/jaxmatch/noise.h).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch import _native


if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt


def _normal(u: Array) -> Array:
    return math.sqrt(2) * lax.erf_inv(2 * u - 1)


def _negative_gumbel(u: Array) -> Array:
    return jnp.log(-jnp.log(u))


class Noise(NamedTuple):
    """How noise z comes from u in (0, 1), and the slope of −log of its density at z."""

    of_uniform: Callable[[Array], Array]
    score: Callable[[Array], Array]


# Added to costs, of which the least wins, Gumbel noise has the other sign than beside scores. The
# native code counts them in this order.
NOISES = {
    "normal": Noise(_normal, lambda z: z),
    "gumbel": Noise(_negative_gumbel, jnp.expm1),
}


def noise_streams(key: Any, batch: tuple[int, ...], entries: int) -> UInt[Array, "... 4"]:
    """For each problem what its noise is made from: the key, the first sample, and its place in the
    batch."""
    size = math.prod(batch)
    if size * entries >= 2**32:
        raise ValueError(f"Noise is made for fewer than 2^32 costs, got {size} times {entries}.")
    place = lax.iota(jnp.uint32, size).reshape(*batch, 1)
    shape = (*batch, 2)
    start = jnp.zeros((*batch, 1), jnp.uint32)
    return jnp.concatenate([jnp.broadcast_to(key_words(key), shape), start, place], -1)


def later_samples(streams: Array, first: Any) -> Array:
    """The streams from sample number `first` on."""
    return streams.at[..., 2].add(jnp.asarray(first, jnp.uint32))


def noise_of(
    streams: UInt[Array, "... 4"], samples: int, entries: int, name: str
) -> Float[Array, "... samples entries"]:
    """Noise of the next samples of each problem, float32."""

    def by_xla(streams: Array) -> Array:
        return NOISES[name].of_uniform(_uniform(streams, samples, entries))

    if not _native.has_cpu_library() or 0 in (*streams.shape, samples, entries):
        return by_xla(streams)
    kind = list(NOISES).index(name)
    on_cpu = partial(_native.noise, samples=samples, entries=entries, kind=kind)
    return lax.platform_dependent(streams, cpu=on_cpu, default=by_xla)


def noise_like(
    key: Any, samples: int, cost: Array, core_dims: int, kind: str | Callable[[Array], Array]
) -> Float[Array, "samples ..."]:
    """Noise for each sample, in the shape and dtype of the costs; `kind` is one of `NOISES`, or how
    it comes from u."""
    split = cost.ndim - core_dims
    batch, problem = cost.shape[:split], cost.shape[split:]
    entries = math.prod(problem)
    streams = noise_streams(key, batch, entries)
    if isinstance(kind, str):
        z = noise_of(streams, samples, entries, kind)
    else:
        z = kind(_uniform(streams, samples, entries))
    return jnp.moveaxis(z, -2, 0).reshape(samples, *cost.shape).astype(cost.dtype)


def key_words(key: Any) -> UInt[Array, "2"]:
    """The two words of a key, of one with more (`rbg`) the first two."""
    words = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return jnp.asarray(words, jnp.uint32)[:2]


def _uniform(streams: Array, samples: int, entries: int) -> Float[Array, "... samples entries"]:
    key0, key1, first, problem = (streams[..., k, None, None] for k in range(4))
    sample = first + lax.iota(jnp.uint32, samples)[:, None]
    place = problem * jnp.uint32(entries) + lax.iota(jnp.uint32, entries)
    bits = threefry(key0, key1, sample, place) >> 9
    # Exact in float32: 24 bits.
    return (bits.astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-23)


def threefry(key0: Array, key1: Array, x: Array, y: Array) -> Array:
    """The output words, combined. Made of single steps, which XLA fuses with what uses the noise;
    `jax.random` holds its bits in memory."""
    keys = (key0, key1, key0 ^ key1 ^ jnp.uint32(0x1BD11BDA))
    x, y = x + keys[0], y + keys[1]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = (y << turn | y >> (32 - turn)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x ^ y

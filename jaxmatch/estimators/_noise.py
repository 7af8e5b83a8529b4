"""Counter-based noise of perturbed estimators: a function of key, sample and position.

A problem of E entries draws H = ⌈E/2⌉ pairs of numbers. Pair k belongs to entries k and H + k. For
sample s of problem b of the batch, Threefry-2x32 with 13 rounds (Salmon et al., SC 2011) is applied
to the counter (s, b H + k) under the two words of the key. The upper 23 bits of each output word w
give a uniform number (⌊w / 2^9⌋ + ½) / 2^23. The two words of a pair give u and v, which are mapped
to noise.

So noise can be generated anywhere and in any order. It does not depend on later problems of the
batch. Kernels that generate the noise on the fly agree with this file to rounding
(ffi/perturbed/noise.h).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.promotion import last_iota
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Float, UInt
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch.estimators import _native


def _normals(u: Array, v: Array) -> tuple[Array, Array]:
    """Normal noise from uniform numbers (Box and Muller, Ann. Math. Statist. 29, 1958)."""
    radius, angle = jnp.sqrt(-2 * jnp.log(u)), 2 * math.pi * v
    return radius * jnp.cos(angle), radius * jnp.sin(angle)


def _negative_gumbels(u: Array, v: Array) -> tuple[Array, Array]:
    return jnp.log(-jnp.log(u)), jnp.log(-jnp.log(v))


class Noise(NamedTuple):
    """A kind of noise: the map from u and v in (0, 1) to noise, and the score −d log p(z) / dz."""

    of_uniforms: Callable[[Array, Array], tuple[Array, Array]]
    score: Callable[[Array], Array]


# Gumbel noise is negated: papers add it to scores, which are maximised, and costs are minimised.
NOISES = {
    "normal": Noise(_normals, lambda z: z),
    "gumbel": Noise(_negative_gumbels, jnp.expm1),
}


def noise_streams(key: Any, batch: tuple[int, ...], entries: int) -> UInt[Array, "... 4"]:
    """The stream of each problem, which defines its noise.

    It holds two key words, the index of the first sample, and the position in the batch.
    """
    size = math.prod(batch)
    if not is_symbolic(batch) and size * entries >= 2**32:
        raise ValueError(f"Noise is made for fewer than 2^32 costs, got {size} times {entries}.")
    place = lax.iota(jnp.uint32, size).reshape(*batch, 1)
    shape = (*batch, 2)
    first_sample = jnp.zeros((*batch, 1), jnp.uint32)
    return jnp.concatenate([jnp.broadcast_to(key_words(key), shape), first_sample, place], -1)


def later_samples(streams: Array, first: Any) -> Array:
    """The streams advanced by `first` samples."""
    return streams.at[..., 2].add(jnp.asarray(first, jnp.uint32))


def noise_of(
    streams: UInt[Array, "... 4"], samples: int, entries: int, name: str
) -> Float[Array, "... samples entries"]:
    """The noise of `samples` samples of each problem, in float32."""

    def by_xla(streams: Array) -> Array:
        return _made(streams, samples, entries, NOISES[name].of_uniforms)

    if 0 in (*streams.shape, samples, entries):
        return by_xla(streams)
    on_cpu = partial(_native.noise, samples=samples, entries=entries, kind=name)
    return by_platform(by_xla, streams, cpu=on_cpu)


def noise_like(
    key: Any, samples: int, cost: Array, core_dims: int, kind: str | Callable[[Array], Array]
) -> Float[Array, "samples ..."]:
    """Noise for each sample, in the shape and dtype of the costs.

    `kind`: a name in `NOISES`, or a function that maps a uniform number to noise.
    """
    split = cost.ndim - core_dims
    batch, problem = cost.shape[:split], cost.shape[split:]
    entries = math.prod(problem)
    streams = noise_streams(key, batch, entries)
    if isinstance(kind, str):
        z = noise_of(streams, samples, entries, kind)
    else:
        z = _made(streams, samples, entries, lambda u, v: (kind(u), kind(v)))
    return jnp.moveaxis(z, -2, 0).reshape(samples, *cost.shape).astype(cost.dtype)


def key_words(key: Any) -> UInt[Array, "2"]:
    """The first two words of a key (`rbg` keys have four)."""
    dtype = getattr(key, "dtype", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    words = jax.random.key_data(key) if typed else jnp.asarray(key)
    if words.dtype != jnp.uint32 or words.shape not in ((2,), (4,)):
        got = f"shape {key.shape}" if typed else f"{words.dtype} of shape {words.shape}"
        raise ValueError(
            "`key` must be one key, such as `jax.random.key(0)`, for the whole batch; got "
            f"{got}. For keys by problem use `jax.vmap`."
        )
    return words[:2]


def _made(
    streams: Array, samples: int, entries: int, of_uniforms: Callable[..., Any]
) -> Float[Array, "... samples entries"]:
    key0, key1, first, problem = (streams[..., k, None, None] for k in range(4))
    pairs = -(-entries // 2)
    sample = first + last_iota(jnp.uint32, samples, first.ndim).swapaxes(-1, -2)
    pair = problem * jnp.uint32(pairs) + last_iota(jnp.uint32, pairs, problem.ndim)
    # Exact, as these numbers have at most 24 significant bits, like float32.
    u, v = (
        ((word >> 9).astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-23)
        for word in threefry(key0, key1, sample, pair)
    )
    return jnp.concatenate(of_uniforms(u, v), -1)[..., :entries]


def threefry(key0: Array, key1: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 13 rounds, by elementwise operations that XLA fuses with the consumer.

    `jax.random` would store its bits in memory instead.
    """
    keys = (key0, key1, key0 ^ key1 ^ jnp.uint32(0x1BD11BDA))
    x, y = x + keys[0], y + keys[1]
    for step in range(13):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[step % 8]
        x = x + y
        y = (y << turn | y >> (32 - turn)) ^ x
        if step % 4 == 3:
            group = step // 4 + 1
            x, y = x + keys[group % 3], y + keys[(group + 1) % 3] + jnp.uint32(group)
    return x, y

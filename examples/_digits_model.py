"""A small DETR in equinox: a convolutional backbone and a transformer decoder over queries.

What lets it learn in minutes is borrowed from DETR's descendants: every query starts from one cell
of the backbone's map and its position (Deformable DETR, two-stage), each decoder layer corrects
the boxes of the layer before, and attention looks first around a query's box (SMCA).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax


if TYPE_CHECKING:
    from jaxtyping import Array, Float, PRNGKeyArray

_START_SIZE = 0.25  # of the image: width and height of a box before anything is known
_PRIOR = -4.0  # first logit of every class: nearly all queries have no object


class Residual(eqx.Module):
    """Two 3x3 convolutions and a way around them."""

    norm: eqx.nn.GroupNorm
    conv1: eqx.nn.Conv2d
    conv2: eqx.nn.Conv2d

    def __init__(self, width: int, *, key: PRNGKeyArray) -> None:
        k1, k2 = jax.random.split(key)
        self.norm = eqx.nn.GroupNorm(8, width)
        self.conv1 = eqx.nn.Conv2d(width, width, 3, padding=1, key=k1)
        self.conv2 = eqx.nn.Conv2d(width, width, 3, padding=1, key=k2)

    def __call__(self, x: Float[Array, "c h w"]) -> Float[Array, "c h w"]:
        return x + self.conv2(jax.nn.relu(self.conv1(jax.nn.relu(self.norm(x)))))


class Backbone(eqx.Module):
    """128x128 image to a 16x16 map (the memory) and an 8x8 map (the queries)."""

    stem: eqx.nn.Conv2d
    down1: eqx.nn.Conv2d
    blocks1: list[Residual]
    down2: eqx.nn.Conv2d
    blocks2: list[Residual]

    def __init__(self, width: int, depth: tuple[int, int], *, key: PRNGKeyArray) -> None:
        keys = iter(jax.random.split(key, 3 + sum(depth)))
        self.stem = eqx.nn.Conv2d(1, 32, 6, stride=4, padding=1, key=next(keys))
        self.down1 = eqx.nn.Conv2d(32, width, 3, stride=2, padding=1, key=next(keys))
        self.blocks1 = [Residual(width, key=next(keys)) for _ in range(depth[0])]
        self.down2 = eqx.nn.Conv2d(width, width, 3, stride=2, padding=1, key=next(keys))
        self.blocks2 = [Residual(width, key=next(keys)) for _ in range(depth[1])]

    def __call__(self, image: Float[Array, "128 128"]) -> tuple[Array, Array]:
        x = jax.nn.relu(self.stem(image[None] - 0.3))
        x = self.down1(x)
        for block in self.blocks1:
            x = block(x)
        y = self.down2(jax.nn.relu(x))
        for block in self.blocks2:
            y = block(y)
        return x, y


class Attention(eqx.Module):
    """Multi-head attention with a bias towards what lies near a query's box.

    Each head learns how steeply its attention falls with the distance from the box, in units of
    the box's size: wide heads see the neighbourhood, narrow ones the object.
    """

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    out: eqx.nn.Linear
    steepness: Float[Array, " heads"]
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray) -> None:
        keys = jax.random.split(key, 4)
        self.query, self.key, self.value, self.out = (
            eqx.nn.Linear(width, width, key=k) for k in keys
        )
        self.heads = heads
        self.steepness = jnp.linspace(-2.0, 2.0, heads)

    def __call__(
        self, x: Float[Array, "q d"], memory: Float[Array, "k d"], distance: Float[Array, "q k"]
    ) -> Float[Array, "q d"]:
        def split(linear: eqx.nn.Linear, x: Array) -> Array:
            return jax.vmap(linear)(x).reshape(len(x), self.heads, -1)

        q, k, v = split(self.query, x), split(self.key, memory), split(self.value, memory)
        score = jnp.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        score -= jax.nn.softplus(self.steepness)[:, None, None] * distance
        mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(score), v)
        return jax.vmap(self.out)(mixed.reshape(len(x), -1))


class DecoderLayer(eqx.Module):
    """Queries look at each other, then at the image, then think."""

    norms: list[eqx.nn.LayerNorm]
    self_attention: Attention
    cross_attention: Attention
    mlp: eqx.nn.MLP

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray) -> None:
        k1, k2, k3 = jax.random.split(key, 3)
        self.norms = [eqx.nn.LayerNorm(width) for _ in range(3)]
        self.self_attention = Attention(width, heads, key=k1)
        self.cross_attention = Attention(width, heads, key=k2)
        self.mlp = eqx.nn.MLP(width, width, 2 * width, 1, key=k3)

    def __call__(self, x: Array, boxes: Array, memory: Array, places: Array) -> Array:
        y = jax.vmap(self.norms[0])(x)
        x += self.self_attention(y, y, _distance(boxes, boxes[:, :2]))
        y = jax.vmap(self.norms[1])(x)
        x += self.cross_attention(y, memory, _distance(boxes, places))
        return x + jax.vmap(self.mlp)(jax.vmap(self.norms[2])(x))


class DigitsDETR(eqx.Module):
    """Scenes to `(logits [layers, queries, classes], boxes [layers, queries, 4])`.

    The first layer is the guess of the backbone alone; the last one is the answer, the others
    help with learning.
    """

    backbone: Backbone
    position: eqx.nn.Linear
    layers: list[DecoderLayer]
    norms: list[eqx.nn.LayerNorm]
    class_heads: list[eqx.nn.Linear]
    box_heads: list[eqx.nn.MLP]

    def __init__(
        self,
        num_classes: int,
        width: int = 64,
        heads: int = 4,
        num_layers: int = 2,
        depth: tuple[int, int] = (2, 1),
        *,
        key: PRNGKeyArray,
    ) -> None:
        keys = iter(jax.random.split(key, 4 + 3 * num_layers))
        self.backbone = Backbone(width, depth, key=next(keys))
        self.position = eqx.nn.Linear(2 * _FREQUENCIES * 2, width, key=next(keys))
        self.layers = [DecoderLayer(width, heads, key=next(keys)) for _ in range(num_layers)]
        self.norms = [eqx.nn.LayerNorm(width) for _ in range(num_layers + 1)]
        heads_ = [eqx.nn.Linear(width, num_classes, key=next(keys)) for _ in self.norms]
        self.class_heads = [
            eqx.tree_at(lambda h: h.bias, h, jnp.full(num_classes, _PRIOR, jnp.float32))
            for h in heads_
        ]
        boxes_ = [eqx.nn.MLP(width, 4, width, 1, key=next(keys)) for _ in self.norms]
        self.box_heads = [
            eqx.tree_at(lambda h: h.layers[-1], h, _zeros(h.layers[-1])) for h in boxes_
        ]

    def __call__(self, image: Float[Array, "128 128"]) -> tuple[Array, Array]:
        fine, coarse = self.backbone(image)
        places, centres = _cell_centres(fine.shape[1]), _cell_centres(coarse.shape[1])
        memory = fine.reshape(len(fine), -1).T + jax.vmap(self.position)(_waves(places))
        x = coarse.reshape(len(coarse), -1).T + jax.vmap(self.position)(_waves(centres))
        boxes = jnp.concatenate([centres, jnp.full_like(centres, _START_SIZE)], axis=-1)

        outputs = []
        for i, norm in enumerate(self.norms):
            if i:
                x = self.layers[i - 1](x, boxes, memory, places)
            y = jax.vmap(norm)(x)
            boxes = jax.nn.sigmoid(jax.scipy.special.logit(boxes) + jax.vmap(self.box_heads[i])(y))
            outputs.append((jax.vmap(self.class_heads[i])(y), boxes))
            boxes = lax.stop_gradient(jnp.clip(boxes, 1e-3, 1 - 1e-3))
        logits, boxes = zip(*outputs, strict=True)
        return jnp.stack(logits), jnp.stack(boxes)


_FREQUENCIES = 6


def _zeros(linear: eqx.nn.Linear) -> eqx.nn.Linear:
    return jax.tree.map(jnp.zeros_like, linear)


def _cell_centres(side: int) -> Float[Array, "cells 2"]:
    """(x, y) of the cells of a map, row by row, in a unit image."""
    at = (jnp.arange(side) + 0.5) / side
    return jnp.stack(jnp.meshgrid(at, at, indexing="xy"), axis=-1).reshape(-1, 2)


def _waves(places: Float[Array, "k 2"]) -> Float[Array, "k waves"]:
    angle = places[:, :, None] * jnp.pi * 2.0 ** jnp.arange(_FREQUENCIES - 1, -1, -1)
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(len(places), -1)


def _distance(boxes: Float[Array, "q 4"], places: Float[Array, "k 2"]) -> Float[Array, "q k"]:
    """Squared distance of places from box centres, in half widths and half heights."""
    offset = (places[None] - boxes[:, None, :2]) / (boxes[:, None, 2:] / 2)
    return (offset**2).sum(-1)

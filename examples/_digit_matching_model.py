"""Two convolutions and a max-pool: pictures of grids to one number for each cell.

The network of Vlastelica et al.: 5x5 convolutions with rectifiers, the maximum over each cell, a
linear map from channels to a number. Here the picture has a blank frame of four pixels, so that the
maximum of a cell is over windows whose middle is in the cell.

Two things make it cheap and change no result. The gradient of a maximum goes to one place alone, so
the convolutions over whole pictures only look for that place; the value there is computed anew from
its 9x9 pixels, and differentiated. And where digits have a blank frame, no cell sees ink of another
one, so a grid need not be put together: every distinct digit goes through the network once, and
grids pick from the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from _digit_matching_data import FRAME, SIDE
from jax import lax


if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PRNGKeyArray

KERNEL = 5
WINDOW = 2 * KERNEL - 1  # pixels, each way, that one number after two convolutions sees
_CACHED_PIXELS = 5_000  # of pictures that go through the convolutions at once on a CPU
Params = dict[str, dict[str, Any]]

# The 5x5 pixels under each of the 5x5 places of the first convolution in a 9x9 window.
_UNDER = np.arange(KERNEL)[:, None] + np.arange(KERNEL)
_UNDER = WINDOW * _UNDER[:, None, :, None] + _UNDER[None, :, None, :]
_UNDER = _UNDER.reshape(KERNEL**2, KERNEL**2)


def init(key: PRNGKeyArray, channels: int) -> Params:
    """Weights and biases uniform within 1/sqrt(inputs), as PyTorch begins."""
    shapes = {
        "conv1": (KERNEL, KERNEL, 1, channels),
        "conv2": (KERNEL, KERNEL, channels, channels),
        "out": (channels, 1),
    }
    params = {}
    for (name, shape), k in zip(shapes.items(), jax.random.split(key, 3), strict=True):
        bound = np.prod(shape[:-1]) ** -0.5
        draw = jax.random.uniform(k, (np.prod(shape) + shape[-1],), minval=-bound, maxval=bound)
        params[name] = {"w": draw[: -shape[-1]].reshape(shape), "b": draw[-shape[-1] :]}
    return params


def cell_values(
    params: Params, pictures: Float[Array, "b h w"], search_dtype: Any = jnp.float32
) -> Float[Array, "b k k"]:
    """A number for each cell of pictures `[b, 28 k + 8, 28 k + 8]`.

    `search_dtype`: in which the places of the maxima are found; the values are float32.
    """
    strongest = _find_strongest(lax.stop_gradient(params), pictures, search_dtype)
    batch, k, _, channels = strongest.shape
    # The window of a place has its upper left corner there, for the picture has a frame.
    origin = jnp.stack(jnp.broadcast_arrays(*jnp.ogrid[:k, :k]), -1)[:, :, None] * SIDE
    corners = jnp.stack([strongest // SIDE, strongest % SIDE], -1) + origin

    def window(picture: Array, corner: Array) -> Array:
        return lax.dynamic_slice(picture, corner, (WINDOW, WINDOW))

    cut = jax.vmap(jax.vmap(window, (None, 0)))
    pixels = cut(pictures, corners.reshape(batch, -1, 2)).reshape(-1, WINDOW**2)[:, _UNDER]
    first, second, out = params["conv1"], params["conv2"], params["out"]
    hidden = jax.nn.relu(pixels @ first["w"].reshape(KERNEL**2, channels) + first["b"])
    hidden = hidden.reshape(-1, channels, KERNEL**2 * channels)
    pooled = jnp.einsum("bcp,pc->bc", hidden, second["w"].reshape(-1, channels)) + second["b"]
    return (jax.nn.relu(pooled) @ out["w"] + out["b"]).reshape(batch, k, k)


def _find_strongest(params: Params, pictures: Array, dtype: Any) -> Int[Array, "b k k channels"]:
    """Where in each cell, by row, each channel of the second convolution is greatest."""
    low = jax.tree.map(lambda p: p.astype(dtype), params)

    def find(pictures: Array) -> Array:
        return _argmax_of_cells(_convolve(low, pictures.astype(dtype)))

    if jax.default_backend() != "cpu":
        return find(pictures)
    # A few at a time stay in the cache.
    size = max(1, _CACHED_PIXELS // (pictures.shape[1] * pictures.shape[2]))
    return lax.map(lambda picture: find(picture[None])[0], pictures, batch_size=size)


def _convolve(params: Params, pictures: Float[Array, "b h w"]) -> Float[Array, "b h w c"]:
    """Both convolutions, without the rectifier of the second one, which moves no maximum."""

    def layer(name: str, x: Array) -> Array:
        w, b = params[name]["w"], params[name]["b"]
        dims = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=dims) + b

    return layer("conv2", jax.nn.relu(layer("conv1", pictures[..., None])))


def _argmax_of_cells(x: Float[Array, "b h w c"]) -> Int[Array, "b k k c"]:
    """First the row, by one maximum over all, and then the place in this row alone."""
    batch, height, _, channels = x.shape
    k = height // SIDE
    x = x.reshape(batch, k, SIDE, k, SIDE, channels)
    row = x.max(4).argmax(2)
    at = jnp.ogrid[:batch, :k, :k, :channels]
    of_row = x[at[0], at[1], row, at[2], :, at[3]]
    return SIDE * row + of_row.argmax(-1)


def cell_values_plainly(params: Params, pictures: Float[Array, "b h w"]) -> Float[Array, "b k k"]:
    """The same as one would write it: for comparison."""
    x = jax.nn.relu(_convolve(params, pictures))
    window = (1, SIDE, SIDE, 1)
    x = lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
    return (x @ params["out"]["w"] + params["out"]["b"])[..., 0]


def digit_values(
    params: Params, images: Float[Array, "digits 28 28"], search_dtype: Any = jnp.float32
) -> Float[Array, " digits"]:
    """Of digits with a blank frame: the numbers that their cells have in any grid."""
    alone = jnp.pad(images, ((0, 0), (FRAME, FRAME), (FRAME, FRAME)))
    return cell_values(params, alone, search_dtype)[:, 0, 0]

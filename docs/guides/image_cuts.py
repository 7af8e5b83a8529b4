"""A noisy image, cut in two; and the price of edges, learned by the gradient of the cut."""

# --8<-- [start:cut]
import jax, jax.numpy as jnp
import jaxmatch as jm

y, x = jnp.mgrid[:48, :64]
disc = ((y - 24) ** 2 + (x - 30) ** 2 < 15**2).astype(float)
image = disc + 0.6 * jax.random.normal(jax.random.key(0), disc.shape)


def segment(image, smooth):
    """The labelling that minimises the sum of its costs and `smooth` for each broken pair."""
    inside, outside = (image - 1) ** 2, image**2  # a cell's cost on either side
    pairwise = jnp.full((2, *image.shape), smooth)  # to the right and down, both ways
    # A cell on the sink side costs its source capacity.
    return jm.grid_cut(source_capacity=outside, sink_capacity=inside, pairwise=pairwise)


cut = jax.jit(segment)(image, 1.0)
(cut.source_side == disc).mean()  # the share of right pixels; by a threshold of 0.5 it is less
# --8<-- [end:cut]
right = float((cut.source_side == disc).mean())
assert right > 0.97 > float(((image > 0.5) == disc).mean()), right

# --8<-- [start:gradient]
cut_edges = jax.grad(lambda smooth: segment(image, smooth).value)(1.0)  # how many pairs are broken
inside, outside, pairs = (image - 1) ** 2, image**2, jnp.ones((2, *image.shape))
at_pairs = jax.grad(lambda pairs: jm.grid_cut(outside, inside, pairs).value)(pairs)  # 1 if broken
at_pixels = jax.grad(lambda image: segment(image, 1.0).value)(image)  # of the value, to the image
# --8<-- [end:gradient]
broken = (jnp.diff(cut.source_side, axis=0) != 0).sum() + (
    jnp.diff(cut.source_side, axis=1) != 0
).sum()
assert abs(float(cut_edges) - float(broken)) < 0.5, (cut_edges, broken)
assert set(at_pairs.ravel().tolist()) == {0, 1} and at_pairs.sum() == broken

# --8<-- [start:seeds]
seeds = jnp.zeros(image.shape).at[24, 30].set(jnp.inf)  # a stroke of the user: this is inside
jm.grid_cut(image**2 + seeds, (image - 1) ** 2, jnp.ones((2, 48, 64)))
jm.grid_cut(image**2, (image - 1) ** 2, jnp.ones((4, 48, 64)), connectivity=8)
volume = jnp.stack([image] * 5)
jm.grid_cut(volume**2, (volume - 1) ** 2, jnp.ones((3, 5, 48, 64)), connectivity=6)
# --8<-- [end:seeds]

# --8<-- [start:weights]
smooth = 0.1
lengths = jnp.sqrt(
    jnp.array([1.0] * 3 + [2.0] * 6 + [3.0] * 4)
)  # 26 neighbours; for 18, no corners
pairwise = jnp.broadcast_to((smooth / lengths)[:, None, None, None], (13, *volume.shape))
cut = jm.grid_cut(volume**2, (volume - 1) ** 2, pairwise, connectivity=26)
# --8<-- [end:weights]
assert cut.status == 0 and float((cut.source_side == disc).mean()) > 0.9

# --8<-- [start:learn]
# The structured hinge: the cost of the wanted labelling minus the least cost of any, where any
# pixel that differs costs less. Its gradient is the difference of their features.
wanted = disc.astype(bool)


def cost_of(labels, image, smooth):
    breaks = (labels[1:] != labels[:-1]).sum() + (labels[:, 1:] != labels[:, :-1]).sum()
    return jnp.where(labels, (image - 1) ** 2, image**2).sum() + smooth * breaks


def hinge(log_smooth):
    smooth = jnp.exp(log_smooth)
    margin = jnp.where(wanted, -1.0, 1.0)  # inside the disc the outside is cheaper, and so on
    shifted = ((image - 1) ** 2 - margin.clip(0), image**2 - (-margin).clip(0))
    low = jnp.minimum(*shifted)  # capacities must not be negative: a constant for each pixel
    best = (
        jm.grid_cut(shifted[1] - low, shifted[0] - low, jnp.full((2, *image.shape), smooth)).value
        + low.sum()
    )
    return (cost_of(wanted, image, smooth) - best) / image.size


log_smooth = 0.0
for _ in range(20):
    loss, slope = jax.value_and_grad(hinge)(log_smooth)
    log_smooth -= 2.0 * slope
# --8<-- [end:learn]
assert loss >= -1e-5 and loss <= float(hinge(0.0)) + 1e-5, loss

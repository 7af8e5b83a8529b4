"""Objects in the plane, followed by nearest predictions under a gate, in one `lax.scan`."""

# --8<-- [start:step]
from typing import NamedTuple

import jax, jax.numpy as jnp
import jaxmatch as jm

GATE = 0.15  # farther away than this a detection is of another object
PATIENCE = 5  # a track that is not seen for so many frames ends


class Tracks(NamedTuple):
    """Padded: a slot whose track does not exist has the name -1."""

    name: jax.Array  # i32[slots]
    position: jax.Array  # f32[slots, 2]
    velocity: jax.Array  # f32[slots, 2]
    unseen: jax.Array  # i32[slots], frames since the last detection
    next_name: jax.Array  # i32[]


def step(tracks: Tracks, frame):
    detected, exists = frame  # f32[d, 2], bool[d]
    predicted = tracks.position + tracks.velocity
    distance = jnp.linalg.norm(detected[:, None] - predicted, axis=-1)
    res = jm.solve_assignment(
        distance**2,
        row_mask=exists,
        col_mask=tracks.name >= 0,
        unmatched_cost=GATE**2,  # a detection may stay without a track
    )
    at = res.row4col  # the detection of each slot, -1 for none
    seen = at >= 0
    found = detected[at]
    velocity = jnp.where(seen[:, None], 0.5 * (tracks.velocity + found - tracks.position), 0)
    tracks = tracks._replace(
        position=jnp.where(seen[:, None], found, predicted),
        velocity=jnp.where(seen[:, None], velocity, tracks.velocity),
        unseen=jnp.where(seen, 0, tracks.unseen + 1),
    )
    tracks = tracks._replace(name=jnp.where(tracks.unseen > PATIENCE, -1, tracks.name))
    tracks, born = begin(tracks, detected, exists & (res.col4row < 0))
    names = jnp.where(res.col4row >= 0, tracks.name[res.col4row], born)
    return tracks, jnp.where(exists, names, -1)


# --8<-- [end:step]
# --8<-- [start:begin]
def begin(tracks: Tracks, detected, new):
    """Puts the k-th new detection into the k-th free slot, if there is one."""
    free = tracks.name < 0
    order = jnp.cumsum(new) - 1  # of each new detection
    slots = jnp.argsort(~free)  # free ones first
    fits = new & (order < free.sum())
    at = jnp.where(fits, slots[order], len(free))  # out of bounds: dropped
    name = jnp.where(fits, tracks.next_name + order, -1)
    return Tracks(
        name=tracks.name.at[at].set(name, mode="drop"),
        position=tracks.position.at[at].set(detected, mode="drop"),
        velocity=tracks.velocity.at[at].set(0.0, mode="drop"),
        unseen=tracks.unseen.at[at].set(0, mode="drop"),
        next_name=tracks.next_name + fits.sum(),
    ), name


# --8<-- [end:begin]
# --8<-- [start:run]
def track(detected, exists, slots=32):
    """The name of each detection, `i32[frames, d]`."""
    nothing = Tracks(
        name=jnp.full(slots, -1),
        position=jnp.zeros((slots, 2)),
        velocity=jnp.zeros((slots, 2)),
        unseen=jnp.zeros(slots, jnp.int32),
        next_name=jnp.int32(0),
    )
    return jax.lax.scan(step, nothing, (detected, exists))[1]


sequences, frames, objects = 8, 40, 10
key = jax.random.split(jax.random.key(0), 4)
start = jax.random.uniform(key[0], (sequences, 1, objects, 2)) * 4
velocity = jax.random.normal(key[1], (sequences, 1, objects, 2)) * 0.02
detected = start + velocity * jnp.arange(frames)[:, None, None]
detected += 0.005 * jax.random.normal(key[2], detected.shape)
exists = jax.random.bernoulli(key[3], 0.9, detected.shape[:-1])  # one in ten is missed

names = jax.jit(jax.vmap(track))(detected, exists)  # all sequences in one native call a frame
# --8<-- [end:run]
correct = (names == names.max(1, keepdims=True)) | ~exists  # an object keeps its last name
assert names.shape == (sequences, frames, objects) and correct.mean() > 0.8, correct.mean()

# --8<-- [start:gate]
gate, d = 1.0, jnp.array([[0.0, 0.9], [0.9, 5.0]])
priced = jm.solve_assignment(d, unmatched_cost=gate)
priced.col4row  # [0, -1]: 0 and the price are less than 0.9 + 0.9

within = jnp.where(d <= gate, d, jnp.inf)  # `gate` may be an array, one for each pair
gated = jm.solve_assignment(within, unmatched_cost=(min(d.shape) + 1) * gate)
gated.col4row  # [1, 0]
# --8<-- [end:gate]
assert priced.col4row.tolist() == [0, -1] and gated.col4row.tolist() == [1, 0]

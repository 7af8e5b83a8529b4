"""Tracks of a whole sequence as one flow of minimum cost."""

# --8<-- [start:network]
import numpy as np
import jaxmatch as jm

PATIENCE = 3  # a link leads at most so many frames ahead
GATE = 0.3  # and no farther than this, for each frame
PRICE = 3.0  # of beginning a track, and of ending it
GAIN = 2.0  # of a detection in a track


def links_of(frames):
    """Pairs of detections that may follow each other, `[k]` and `[k]`, and what each costs."""
    first = np.cumsum([0, *map(len, frames)])
    links = []
    for t in range(len(frames)):
        for ahead in range(1, min(PATIENCE, len(frames) - 1 - t) + 1):
            apart = np.linalg.norm(frames[t][:, None] - frames[t + ahead], axis=-1) / GATE
            i, j = np.nonzero(apart <= ahead)
            cost = apart[i, j] ** 2 / ahead + (ahead - 1)
            links.append((first[t] + i, first[t + ahead] + j, cost))
    return [np.concatenate(x) for x in zip(*links, strict=True)]


def network_of(n, before, after, cost):
    """Detection k is an arc from node 2k to node 2k + 1, and pays; a track is a path of arcs."""
    enter, leave = 2 * np.arange(n), 2 * np.arange(n) + 1
    source, sink = np.full(n, 2 * n), np.full(n, 2 * n + 1)
    arcs = [
        (leave[before], enter[after], cost, 1),
        (enter, leave, np.full(n, -GAIN), 1),
        (source, enter, np.full(n, PRICE), 1),
        (leave, sink, np.full(n, PRICE), 1),
        (sink[:1], source[:1], np.zeros(1), n),  # as many tracks as pay
    ]
    tail, head, cost = (np.concatenate(x) for x in list(zip(*arcs, strict=True))[:3])
    capacity = np.repeat([x[3] for x in arcs], [len(x[0]) for x in arcs])
    return jm.FlowNetwork.from_edges(tail, head, 2 * n + 2), capacity, cost


# --8<-- [end:network]
# --8<-- [start:track]
def track(frames):
    """The track of each detection, `[n]`, -1 for none. Detections count through all frames."""
    n = sum(map(len, frames))
    before, after, cost = links_of(frames)
    network, capacity, cost = network_of(n, before, after, cost)
    res = jm.minimum_cost_flow(network, capacity, cost, np.zeros(2 * n + 2, int))
    res.raise_for_status()

    links, detections = np.split(res.flow[: len(before) + n] > 0, [len(before)])
    name = np.where(detections, np.arange(n), -1)
    for k in np.flatnonzero(links)[np.argsort(after[links])]:  # in the order of frames
        name[after[k]] = name[before[k]]
    return name


rng = np.random.default_rng(0)
way = np.linspace(0, 3, 40)
truth = np.stack([np.stack([way, np.sin(way + k)], -1) + [0, k] for k in range(5)])  # [5, 40, 2]
frames = [
    np.concatenate([x[rng.random(5) < 0.85], rng.uniform(0, 5, (2, 2))])  # missed, and two false
    for x in truth.swapaxes(0, 1)
]
name = track(frames)
lengths = np.bincount(name[name >= 0])
lengths[lengths > 0]  # five tracks of about 34 detections
# --8<-- [end:track]
assert (lengths > 0).sum() == 5 and lengths[lengths > 0].min() > 25, lengths[lengths > 0]

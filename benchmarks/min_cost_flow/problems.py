"""Minimum-cost flow problems: families of the literature, and networks as people have them.

Each family is made from its published description, not by the original program. NETGEN: Klingman,
Napier and Stutz 1974. GRIDGEN: Lee and Orlin 1991. GOTO: Goldberg 1991 (a grid on a torus). Their
degrees and supplies are those of Király and Kovács 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


MOST_COST, MOST_CAPACITY = 10_000, 1000
UNLIMITED = 10**6  # more than any of these networks carries on an arc, unless it says otherwise
DETECTIONS = 50  # in each frame, where there are many arcs
NEAREST = 3


class Problem(NamedTuple):
    """Masses in `i64`, costs in `i64` or `f64`; arc k leads from `tail[k]` to `head[k]`."""

    tail: np.ndarray
    head: np.ndarray
    capacity: np.ndarray
    cost: np.ndarray
    supply: np.ndarray

    @property
    def nodes(self) -> int:
        return len(self.supply)

    @property
    def arcs(self) -> int:
        return len(self.tail)


Parts = Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
Family = Callable[[int, np.random.Generator], Problem]


def _joined(parts: Parts, supply: np.ndarray) -> Problem:
    """Parts are (tail, head, capacity, cost). Self-loops, and all but the first of parallel arcs,
    are left out: some solvers take neither."""
    tail, head, capacity, cost = (
        np.concatenate([np.atleast_1d(part[k]) for part in parts]) for k in range(4)
    )
    _, first = np.unique(tail * len(supply) + head, return_index=True)
    keep = first[tail[first] != head[first]]
    columns = (x[keep] for x in (tail, head, capacity, cost))
    return Problem(*(x.astype(np.int64) for x in (*columns, supply)))


def _full(like: np.ndarray, value: int) -> np.ndarray:
    return np.full(len(like), value)


def _shares(rng: np.random.Generator, total: int, count: int) -> np.ndarray:
    return rng.multinomial(total, np.full(count, 1 / count))


# ---------------------------------------------------------------------------------------------
# Families of the literature


def _netgen(nodes: int, arcs: int, supply_each: int, rng: np.random.Generator) -> Problem:
    """The first nodes are sources, the last ones sinks. Chains lead from each source through nodes
    between to several sinks, wide enough for its supply; all other arcs are random."""
    ends = max(2, round(nodes**0.5))
    total = supply_each * ends
    supply = np.zeros(nodes, np.int64)
    supply[:ends] = _shares(rng, total, ends)
    between = rng.permutation(np.arange(ends, nodes - ends))
    parts = []
    demand = np.zeros(ends, np.int64)
    sinks = nodes - ends + rng.permutation(ends)
    for source, chain in enumerate(np.array_split(between, ends)):
        path = np.concatenate([[source], chain])
        wide = max(1, int(supply[source]))
        parts.append(
            (path[:-1], path[1:], _full(chain, wide), rng.integers(1, MOST_COST, len(chain)))
        )
        to = np.unique(np.append(rng.choice(sinks, min(3, ends)), sinks[source]))
        from_ = rng.choice(path, len(to))
        from_[0] = path[-1]
        shares = np.zeros(len(to), np.int64)
        shares[:] = _shares(rng, int(supply[source]), len(to))
        demand[to - (nodes - ends)] += shares
        parts.append((from_, to, _full(to, wide), rng.integers(1, MOST_COST, len(to))))
    supply[nodes - ends :] -= demand
    more = max(0, arcs - sum(len(part[0]) for part in parts))
    tail, head = rng.integers(0, nodes - ends, more), rng.integers(ends, nodes, more)
    drawn = rng.integers(1, MOST_CAPACITY, more), rng.integers(1, MOST_COST, more)
    return _joined([*parts, (tail, head, *drawn)], supply)


def _by_degree(make: Callable[..., Problem], *options: int) -> Family:
    """Eight arcs for each node."""
    return lambda arcs, rng: make(arcs // 8, arcs, *options, rng)


def _by_root(make: Callable[..., Problem], *options: int) -> Family:
    """As many arcs for each node as the square root of the number of nodes."""
    return lambda arcs, rng: make(round(arcs ** (2 / 3)), arcs, *options, rng)


def _gridgen(nodes: int, arcs: int, rng: np.random.Generator) -> Problem:
    """A grid with arcs both ways between neighbours and random ones beside them. A node of its own
    takes from the sources and gives to the sinks what does not fit, at a high cost."""
    width = round((2 * nodes) ** 0.5)
    height = max(2, nodes // width)
    n = width * height
    at = np.arange(n).reshape(height, width)
    a = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    b = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    more = max(0, arcs - 2 * len(a))
    tail = np.concatenate([a, b, rng.integers(0, n, more)])
    head = np.concatenate([b, a, rng.integers(0, n, more)])
    capacity = rng.integers(1, MOST_CAPACITY, len(tail))
    cost = rng.integers(1, MOST_COST, len(tail))
    ends = max(2, round(n**0.5))
    chosen = rng.choice(n, 2 * ends, replace=False)
    sources, sinks = chosen[:ends], chosen[ends:]
    supply = np.zeros(n + 1, np.int64)
    supply[sources] = _shares(rng, 1000 * ends, ends)
    supply[sinks] = -_shares(rng, 1000 * ends, ends)
    high = 10 * MOST_COST
    beside = [
        (sources, _full(sources, n), supply[sources], _full(sources, high)),
        (_full(sinks, n), sinks, -supply[sinks], _full(sinks, high)),
    ]
    return _joined([(tail, head, capacity, cost), *beside], supply)


def _goto(nodes: int, arcs: int, rng: np.random.Generator) -> Problem:
    """A torus, as long as its width squared. Arcs along it are dear and the narrower the longer,
    those across are cheap. It is cut open: arcs over the cut lead to the sink and from the source,
    and all that they can carry is supply. A path through all nodes can carry it back."""
    most = 2**14
    across = round(nodes ** (1 / 3))
    along = nodes // across
    x, y = (v.ravel() for v in np.indices((along, across)))
    source, sink = 0, along * across - 1
    # The path takes an arc for each node; degrees are as a square to its root.
    degree = max(2, arcs // nodes - 1)
    short = min(across - 1, max(1, round((degree + 0.25) ** 0.5 - 0.5)))
    long = min(along - 1, max(1, degree - short))
    narrower = most ** (1 / (max(long, short) + 2))
    parts, total = [], int(most**0.5)
    for i in range(1, long + 1):
        capacity = np.ceil(rng.integers(1, most, len(x)) / narrower ** (i - 1)).astype(np.int64)
        cost = rng.integers(0, most, len(x))
        over = x + i >= along
        tail, head = x * across + y, (x + i) % along * across + y
        parts.append((tail[~over], head[~over], capacity[~over], cost[~over]))
        out, back = over & (tail != sink), over & (head != source)
        to, from_ = np.full(out.sum(), sink), np.full(back.sum(), source)
        parts += [(tail[out], to, capacity[out], cost[out])]
        parts += [(from_, head[back], capacity[back], cost[back])]
        total += int(capacity[out].sum() + capacity[head == sink].sum())
    for i in range(1, short + 1):
        drawn = rng.integers(1, most, len(x)), rng.integers(0, 8, len(x))
        parts.append((x * across + y, x * across + (y + i) % across, *drawn))
    # Of parallel arcs the first one is kept: the path comes first.
    path = np.arange(along * across)
    home = (path[:-1], path[1:], _full(path[1:], total), _full(path[1:], most // across))
    supply = np.zeros(along * across, np.int64)
    supply[[source, sink]] = total, -total
    return _joined([home, *parts], supply)


# ---------------------------------------------------------------------------------------------
# Networks as people have them


def _road(arcs: int, rng: np.random.Generator) -> Problem:
    """Crossings on a jittered grid; nine of ten streets exist, both ways, and cost their length.
    One crossing of a hundred sends, and one receives."""
    side = max(4, round((arcs / 3.6) ** 0.5))
    n = side * side
    at = np.arange(n).reshape(side, side)
    x, y = np.divmod(np.arange(n), side)
    place = np.stack([x, y], -1) + 0.6 * rng.random((n, 2))
    a = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    b = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    # The first row and all columns stay whole, so that everything is joined.
    keep = (rng.random(len(a)) < 0.9) | (a // side != b // side) | (a < side)
    a, b = a[keep], b[keep]
    length = np.rint(1000 * np.linalg.norm(place[a] - place[b], axis=-1))
    tail, head = np.append(a, b), np.append(b, a)
    ends = max(2, n // 100)
    chosen = rng.choice(n, 2 * ends, replace=False)
    supply = np.zeros(n, np.int64)
    supply[chosen[:ends]] = rng.integers(1, 100, ends)
    supply[chosen[ends:]] = -_shares(rng, int(supply.sum()), ends)
    return _joined([(tail, head, _full(tail, UNLIMITED), np.tile(length, 2))], supply)


def _assignment(arcs: int, rng: np.random.Generator) -> Problem:
    """Eight columns for each row, one of them as in a permutation."""
    n = arcs // 8
    rows = np.arange(n)
    tail = np.append(rows, np.repeat(rows, 7))
    head = n + np.append(rng.permutation(n), rng.integers(0, n, 7 * n))
    cost = rng.integers(1, MOST_COST, len(tail))
    return _joined([(tail, head, _full(tail, 1), cost)], np.repeat([1, -1], n))


def _transport(arcs: int, rng: np.random.Generator) -> Problem:
    """Every supply to every demand, at distances in the plane."""
    n = round(arcs**0.5)
    x, y = rng.random((2, n, 2))
    cost = np.rint(MOST_COST * np.linalg.norm(x[:, None] - y, axis=-1)).astype(np.int64)
    supply = rng.integers(1, 100, n)
    demand = _shares(rng, int(supply.sum()), n)
    tail, head = (v.ravel() for v in np.indices((n, n)))
    parts = [(tail, n + head, _full(tail, UNLIMITED), cost.ravel())]
    return _joined(parts, np.append(supply, -demand))


def _chains(gain: np.ndarray, links: Sequence[np.ndarray], price: int) -> Problem:
    """Each thing is a pair of nodes, joined by an arc that costs -`gain`. A chain begins at node 0
    and ends at node 1, both at a `price`; as many chains as pay are free to return to node 0."""
    things = np.arange(len(gain))
    enter, leave = 2 + 2 * things, 3 + 2 * things
    one, paid = _full(gain, 1), _full(gain, price)
    before, after, cost = links
    parts = [
        (enter, leave, one, -gain),
        (0 * things, enter, one, paid),
        (leave, 0 * things + 1, one, paid),
        (leave[before], enter[after], _full(before, 1), cost),
        tuple(np.array([v]) for v in (1, 0, len(gain), 0)),
    ]
    return _joined(parts, np.zeros(2 + 2 * len(gain), np.int64))  # type: ignore[arg-type]


def _tracking(arcs: int, rng: np.random.Generator) -> Problem:
    """Detections, each with links to the three nearest of the next frame (Zhang, Li and Nevatia
    2008); no supply: a track that does not pay is not taken."""
    count = DETECTIONS if arcs > 10_000 else 20
    frames = max(2, round(arcs / (2 * NEAREST * count)))
    steps = rng.normal(0, 0.01, (frames, count, 2))
    place = rng.random((count, 2)) + np.cumsum(steps, 0)
    at = np.arange(frames * count).reshape(frames, count)
    links = []
    for frame in range(frames - 1):
        apart = np.linalg.norm(place[frame][:, None] - place[frame + 1], axis=-1)
        near = np.argsort(apart, 1)[:, :NEAREST]
        cost = np.rint(1000 * np.take_along_axis(apart, near, 1)).ravel()
        links.append((np.repeat(at[frame], NEAREST), at[frame + 1][near].ravel(), cost))
    joined = [np.concatenate(x) for x in zip(*links, strict=True)]
    return _chains(rng.integers(20, 80, at.size), joined, 100)


def _stitching(arcs: int, rng: np.random.Generator) -> Problem:
    """Pieces of tracks, each with links to those that begin soon after its end, not far from it."""
    most = 10
    count = arcs // (most + 3)
    begin = np.sort(rng.integers(0, max(50, count // 20), count))
    end = begin + rng.integers(1, 30, count)
    first = rng.random((count, 2))
    last = first + 0.02 * rng.normal(size=(count, 2)) * np.sqrt(end - begin)[:, None]
    links = []
    for piece in range(count):
        low, high = np.searchsorted(begin, [end[piece] + 1, end[piece] + 16])
        apart = np.linalg.norm(first[low:high] - last[piece], axis=-1)
        near = np.argsort(apart)[:most]
        cost = np.rint(400 * apart[near] + 3 * (begin[low + near] - end[piece]))
        links.append((np.full(len(near), piece), low + near, cost))
    joined = [np.concatenate(x) for x in zip(*links, strict=True)]
    return _chains(rng.integers(20, 120, count), joined, 60)


def _dag(arcs: int, rng: np.random.Generator) -> Problem:
    """Ten arcs for each node, all of one unit; a tenth of the nodes' root is sent through. That
    many chains, disjoint but for their ends, can carry it."""
    n = arcs // 10
    units = max(4, round(n**0.5) // 5)
    parts = []
    for chain in np.array_split(rng.permutation(np.arange(1, n - 1)), units):
        path = np.concatenate([[0], np.sort(chain), [n - 1]])
        parts.append((path[:-1], path[1:]))
    chains = [np.concatenate(x) for x in zip(*parts, strict=True)]
    more = arcs - len(chains[0])
    tail = rng.integers(0, n - 1, more)
    head = np.minimum(n - 1, tail + rng.integers(1, max(30, n // 20), more))
    tail, head = np.append(chains[0], tail), np.append(chains[1], head)
    supply = np.zeros(n, np.int64)
    supply[[0, -1]] = units, -units
    return _joined([(tail, head, _full(tail, 1), rng.integers(1, 1000, len(tail)))], supply)


def _floats(decades: int) -> Family:
    """A network of NETGEN with costs that are uniform on a logarithmic scale."""

    def make(arcs: int, rng: np.random.Generator) -> Problem:
        given = _netgen(arcs // 8, arcs, 1000, rng)
        return given._replace(cost=10 ** rng.uniform(-decades, decades, given.arcs))

    return make


FAMILIES: dict[str, Family] = {
    "NETGEN, degree 8": _by_degree(_netgen, 1000),
    "NETGEN, degree √n": _by_root(_netgen, 1000),
    "NETGEN, low supply": _by_degree(_netgen, 10),
    "GRIDGEN, degree 8": _by_degree(_gridgen),
    "GOTO, degree 8": _by_degree(_goto),
    "GOTO, degree √n": _by_root(_goto),
    "road": _road,
    "assignment": _assignment,
    "transport": _transport,
    "tracking": _tracking,
    "stitching": _stitching,
    "DAG of units": _dag,
    "floats, 10^±3": _floats(3),
    "floats, 10^±12": _floats(12),
}
SIZES = [1500, 15_000, 200_000]
# Tracking: 1000 frames of 50 detections. The others would take a minute.
LARGEST = {"tracking": 300_000} | dict.fromkeys(["GOTO, degree 8", "GOTO, degree √n"], 60_000)
LARGEST["floats, 10^±12"] = 60_000


def problem(name: str, arcs: int, seed: int = 0) -> Problem:
    return FAMILIES[name](arcs, np.random.default_rng([seed, arcs]))


def sizes(name: str) -> list[int]:
    return [*SIZES[:-1], LARGEST.get(name, SIZES[-1])]

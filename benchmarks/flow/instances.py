"""Networks and grids for the flow benchmark: real ones, and families made from a seed.

Files hold a network as `n`, `source`, `sink`, `src`, `dst`, `cap`; a grid as `us`, `ut` (of the
arcs from the source and to the sink), `pairwise` as `jm.grid_cut` takes it, `connectivity`, and
`optimum` for a batch. What is an image is both: its grid is read off its network. Images that no
file holds are made where scikit-image or nilearn are installed. `_u20` has unary terms of a
twentieth, so that flow has to go far. Everything is made once, in a process of its own, and kept in
a folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.cache import keep, load, make_in_parallel, path_of


Network = dict[str, Any]

# The maximum flow, on which several solvers agree.
KNOWN = {
    "camera_512": 30298, "china_640x427_rgb": 89914, "coins": 60797, "mni_t1_3mm": 60262,
    "mni_t1_2mm": 212633, "stereo_motorcycle_a20": 16984500, "stereo_motorcycle_a45": 17259860,
    "stereo_motorcycle_half_a12": 5796000, "snap_NotreDame_www_20pairs": 35,
    "snap_email-Enron_20pairs": 86, "snap_pgp-strong-2009_20pairs": 29,
    "rlg_512x512": 3904952, "rlg_4096x64": 32170046, "rlg_64x4096": 420057,
    "genrmf_a48_b48": 11118019, "genrmf_a16_b256": 1152755, "genrmf_a64_b16": 20036030,
}  # fmt: skip

MATCHINGS = {"marvel_like": (12942, 6486, 96662), "movielens_ui_like": (7601, 4009, 55484)}
_BATCH = "batch_lfw_200x25x25"
_GENERATED = ("rlg_512x512", "rlg_64x4096", "rlg_4096x64", "genrmf_a48_b48", "genrmf_a16_b256")
_GENERATED += ("genrmf_a64_b16", "genrmf_a128_b128", *MATCHINGS)
_STEREO = {"stereo_motorcycle_a20": (1, 64, 20), "stereo_motorcycle_a45": (1, 64, 45)}
_STEREO |= {"stereo_motorcycle_half_a12": (2, 32, 12)}  # step, disparities, label
_VOLUME = "mni_t1_2mm"


# ---------------------------------------------------------------------------------------------
# Families


def _network(n: int, source: int, sink: int, src: Any, dst: Any, cap: Any) -> Network:
    parts = {"src": src, "dst": dst, "cap": cap}
    joined = {name: np.concatenate(x).astype(np.int32) for name, x in parts.items()}
    return {"n": n, "source": source, "sink": sink} | joined


def rlg(rows: int, cols: int, most: int = 10000, seed: int = 0) -> Network:
    """Washington's random level graph: three arcs from each node to different ones of the next
    column; 0 is the source, the last node the sink."""
    rng = np.random.default_rng(seed)
    x, y = np.tile(np.arange(rows), cols - 1), np.repeat(np.arange(cols - 1), rows)
    count = len(x)
    first = rng.integers(0, rows, count)
    second = (first + 1 + rng.integers(0, max(rows - 1, 1), count)) % rows
    third = rng.integers(0, rows, count)
    for _ in range(64):
        taken = (third == first) | (third == second)
        if not taken.any() or rows < 3:
            break
        third[taken] = rng.integers(0, rows, taken.sum())
    src = [1 + x + rows * y] * 3
    dst = [1 + head + rows * (y + 1) for head in (first, second, third)]
    cap = [rng.integers(1, most + 1, 3 * count), np.full(2 * rows, 3 * most)]
    row, sink = np.arange(rows), rows * cols + 1
    src += [0 * row, 1 + row + rows * (cols - 1)]
    dst += [1 + row, 0 * row + sink]
    return _network(sink + 1, 0, sink, src, dst, cap)


def genrmf(a: int, b: int, c1: int = 1, c2: int = 10000, seed: int = 0) -> Network:
    """Goldfarb and Grigoriadis: b frames of a x a nodes, each joined to the next one at random."""
    rng = np.random.default_rng(seed)
    area = a * a
    at = np.arange(area * b).reshape(b, a, a)
    joins = (at[:, :, :-1], at[:, :, 1:]), (at[:, :-1], at[:, 1:])
    src = [x.ravel() for p, q in joins for x in (p, q)]
    dst = [x.ravel() for p, q in joins for x in (q, p)]
    inside = np.full(sum(map(len, src)), c2 * area)
    mates = np.stack([rng.permutation(area) for _ in range(b - 1)])
    src.append(np.arange(area * (b - 1)))
    dst.append((mates + area * np.arange(1, b)[:, None]).ravel())
    cap = [inside, rng.integers(c1, c2 + 1, area * (b - 1))]
    return _network(area * b, 0, area * b - 1, src, dst, cap)


def matching(rows: int, cols: int, edges: int, seed: int = 0) -> Network:
    """Unit capacities from a source through rows and columns to a sink, about so many edges
    between them; some rows and columns have many, most have few."""
    rng = np.random.default_rng(seed)
    ends = [rng.zipf(1.6, 2 * edges) % n for n in (rows, cols)]
    ends = [np.where(rng.random(2 * edges) < 0.5, x, rng.integers(0, n, 2 * edges))
            for x, n in zip(ends, (rows, cols), strict=True)]  # fmt: skip
    u, v = np.divmod(np.unique(ends[0] * cols + ends[1]), cols)
    chosen = rng.permutation(len(u))[:edges]
    u, v = u[chosen], v[chosen]
    source, sink = rows + cols, rows + cols + 1
    row, col = np.arange(rows), rows + np.arange(cols)
    src = [u, np.full(rows, source), col]
    dst = [rows + v, row, np.full(cols, sink)]
    return _network(sink + 1, source, sink, src, dst, [np.ones(len(x), np.int32) for x in src])


def image(us: np.ndarray, ut: np.ndarray, weights: list[np.ndarray]) -> Network:
    """A grid of pixels or voxels, `weights` per axis and both ways. What both terminals share of a
    pixel is left out."""
    n, at = us.size, np.arange(us.size).reshape(us.shape)
    src, dst, cap = [], [], []
    for axis, weight in enumerate(weights):
        low = at.take(np.arange(us.shape[axis] - 1), axis).ravel()
        high = at.take(np.arange(1, us.shape[axis]), axis).ravel()
        src, dst, cap = [*src, low, high], [*dst, high, low], [*cap, weight.ravel(), weight.ravel()]
    return _with_terminals(n, src, dst, cap, us.ravel(), ut.ravel())


def _with_terminals(n: int, src: list, dst: list, cap: list, us: Any, ut: Any) -> Network:
    shared = np.minimum(us, ut)
    us, ut = us - shared, ut - shared
    from_source, to_sink = np.flatnonzero(us), np.flatnonzero(ut)
    src = [*src, 0 * from_source + n, to_sink]
    dst = [*dst, from_source, 0 * to_sink + n + 1]
    return _network(n + 2, n, n + 1, src, dst, [*cap, us[from_source], ut[to_sink]])


def noisy_grid(side: int, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    us, ut = rng.integers(0, 60, (2, side, side))
    return image(us, ut, [np.full((side - 1, side), 30), np.full((side, side - 1), 30)])


# ---------------------------------------------------------------------------------------------
# Photographs and a volume, from packages that have them


def _package_file(package: str, path: str) -> Path | None:
    found = importlib.util.find_spec(package)
    file = Path(found.origin).parent / path if found and found.origin else None
    return file if file and file.is_file() else None


def stereo(left: np.ndarray, right: np.ndarray, labels: int, alpha: int) -> Network:
    """The first move to label `alpha` of Boykov, Veksler and Zabih's expansion: Potts smoothness,
    from the labels that fit best in windows of 5 x 5 pixels."""
    from scipy.ndimage import uniform_filter

    smooth, scale = 20, 20
    height, width = left.shape
    cost = np.full((labels + 1, height, width), 255 * scale, np.int64)
    for d in range(labels + 1):
        off = np.abs(left[:, d:].astype(int) - right[:, : width - d].astype(int))
        cost[d, :, d:] = np.minimum(off * scale, 60 * scale)
    best = np.stack([uniform_filter(c.astype(np.float32), 5) for c in cost]).argmin(0)
    label, at = best.ravel(), np.arange(best.size).reshape(best.shape)
    us = cost[alpha].ravel().copy()
    ut = np.take_along_axis(cost, best[None], 0)[0].ravel().copy()
    src, dst, cap = [], [], []
    for p, q in ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:])):
        p, q = p.ravel(), q.ravel()
        # Costs of both labels kept, p alone kept, q alone kept (Kolmogorov and Zabih, 2004).
        both, p_kept, q_kept = (
            smooth * scale * x for x in (label[p] != label[q], label[p] != alpha, label[q] != alpha)
        )
        for node, weight in ((p, q_kept - both), (q, -q_kept)):
            np.add.at(us, node, np.maximum(weight, 0))
            np.add.at(ut, node, np.maximum(-weight, 0))
        weight = p_kept + q_kept - both
        some = weight > 0
        src, dst, cap = [*src, p[some]], [*dst, q[some]], [*cap, weight[some]]
    return _with_terminals(best.size, src, dst, cap, us, ut)


def _make_stereo(name: str) -> Network:
    from PIL import Image

    step, labels, alpha = _STEREO[name]
    folder = _package_file("skimage", "data/motorcycle_left.png").parent  # pyright: ignore
    views = [folder / f"motorcycle_{side}.png" for side in ("left", "right")]
    left, right = (np.array(Image.open(v).convert("L"))[::step, ::step] for v in views)
    return stereo(left, right, labels, alpha)


def _make_volume() -> Network:
    nibabel = importlib.import_module("nibabel")
    voxels = np.asarray(nibabel.load(_volume_file()).dataobj).astype(np.float32)
    x = (voxels / voxels.max() * 255)[::2, ::2, ::2].astype(np.float64)
    off = [(x - mean) ** 2 for mean in (190.0, 60.0)]
    spread = np.sqrt(np.mean(np.minimum(*off))) + 1e-9
    ut, us = (np.minimum(np.round(50 * d / spread**2), 10000).astype(np.int32) for d in off)
    steps = [np.diff(x, axis=axis) ** 2 for axis in range(3)]
    weights = [np.maximum(1, np.round(60 * np.exp(-d / 288))).astype(np.int32) for d in steps]
    return image(us, ut, weights)


def _volume_file() -> Path | None:
    return _package_file(
        "nilearn", "datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"
    )


# ---------------------------------------------------------------------------------------------
# Grids


def grid_of(network: Network) -> dict[str, Any] | None:
    """The grid that an image's network was made from, None for other networks."""
    n, source, sink = (int(network[x]) for x in ("n", "source", "sink"))
    src, dst, cap = (np.asarray(network[x], np.int64) for x in ("src", "dst", "cap"))
    if (source, sink) != (n - 2, n - 1):
        return None
    cells = n - 2
    inner = (src < cells) & (dst < cells)
    step = dst[inner] - src[inner]
    strides = np.unique(np.abs(step))
    shape = [int(b // a) for a, b in zip(strides, [*strides[1:], cells], strict=True)]
    if len(strides) not in (2, 3) or strides[0] != 1 or np.prod(shape) != cells:
        return None
    pairwise = np.zeros((2 * len(strides), cells), np.int32)
    for k, stride in enumerate([*strides, *-strides]):
        pairwise[k, src[inner][step == stride]] = cap[inner][step == stride]
    us, ut = np.zeros((2, cells), np.int32)
    us[dst[src == source]] = cap[src == source]
    ut[src[dst == sink]] = cap[dst == sink]
    shape = shape[::-1]
    grid = {"us": us.reshape(shape), "ut": ut.reshape(shape), "connectivity": 2 * len(shape)}
    return grid | {"pairwise": pairwise.reshape(-1, *shape)}


def _batch() -> dict[str, Any]:
    with np.load(data_folder() / f"{_BATCH}.npz") as file:
        us, ut, wx, wy, optimum = (file[x] for x in ("us", "ut", "wx", "wy", "optimum"))
    pairwise = np.zeros((len(us), 2, *us.shape[1:]), np.int32)
    pairwise[:, 0, :, :-1], pairwise[:, 1, :-1] = wx, wy
    unary = {"us": us.astype(np.int32), "ut": ut.astype(np.int32)}
    return unary | {"pairwise": pairwise, "connectivity": 4, "optimum": optimum}


# ---------------------------------------------------------------------------------------------
# Names, making and keeping


def data_folder() -> Path:
    return Path(os.environ.get("JAXMATCH_DATA", "data")) / "flow"


def names() -> tuple[list[str], list[str]]:
    """Networks and grids that there are files, generators or packages for."""
    files = sorted(path.stem for path in data_folder().glob("*.npz") if path.stem in KNOWN)
    made = list(_STEREO) if _package_file("skimage", "data/motorcycle_left.png") else []
    made += [_VOLUME] if _volume_file() and importlib.util.find_spec("nibabel") else []
    images = [name for name in files if not name.startswith("snap_")] + made
    few = [f"{name}_u20" for name in ("camera_512", "china_640x427_rgb") if name in images]
    batch = [_BATCH] if (data_folder() / f"{_BATCH}.npz").is_file() else []
    return [*_GENERATED, *files, *made], [*images, *few, *batch]


def make_all(wanted: Iterable[str], cache: Path) -> dict[str, tuple[int, int]]:
    """Makes what `cache` lacks, in parallel. Nodes and arcs of each by name; cells and directions
    of what is a grid alone."""
    cache.mkdir(parents=True, exist_ok=True)
    wanted = list(dict.fromkeys(wanted))
    missing = [(name, cache) for name in wanted if not path_of(cache, name).exists()]
    make_in_parallel(_make, missing, 8)
    sizes = {}
    for name in wanted:
        x = load(cache, name)
        is_network = "n" in x
        nodes, arcs = (x["n"], len(x["src"])) if is_network else (x["us"].size, x["connectivity"])
        sizes[name] = int(nodes), int(arcs)
    return sizes


def workload_spread(x: Network) -> tuple[float, float]:
    """Imbalance of arcs among warps that visit all nodes, as standard deviation by mean.

    With a node for each lane, so that a warp waits for its longest one (WBPR's TC), and with the 32
    nodes of a warp visited one after another by all lanes (TLPNS).
    """
    n = int(x["n"])
    degree = np.bincount(x["src"], minlength=n) + np.bincount(x["dst"], minlength=n)
    lanes = np.pad(degree, (0, -n % 32)).reshape(-1, 32)
    warps = lanes.max(1), (-(-lanes // 32)).sum(1)
    return tuple(float(w.std() / w.mean()) for w in warps)  # pyright: ignore


def _instance(name: str) -> dict[str, Any]:
    if name == _BATCH:
        return _batch()
    if name.endswith("_u20"):
        grid = _instance(name.removesuffix("_u20"))
        return {x: grid[x] for x in ("pairwise", "connectivity")} | {
            x: grid[x] // 20 for x in ("us", "ut")
        }
    if numbers := re.fullmatch(r"(?:rlg_|genrmf_a|grid_)(\d+)(?:x|_b)(\d+)", name):
        make = {"rlg": rlg, "genrmf": genrmf, "grid": lambda side, _: noisy_grid(side)}
        network = make[name.split("_")[0]](*map(int, numbers.groups()))
    elif name in MATCHINGS:
        network = matching(*MATCHINGS[name])
    elif name in _STEREO:
        network = _make_stereo(name)
    elif name == _VOLUME:
        network = _make_volume()
    else:
        with np.load(data_folder() / f"{name}.npz") as file:
            network = {x: file[x] for x in ("n", "source", "sink", "src", "dst", "cap")}
    return network | (grid_of(network) or {})


def _make(name: str, cache: Path) -> None:
    keep(cache, name, _instance(name))

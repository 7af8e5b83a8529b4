"""PyEPO's shortest-path benchmark with all our rules: a part of `learning`.
Data, model, optimiser, losses and strengths are those of PyEPO's notebook "Training and Testing"
(version 2.2), which has one run of each method; `examples/_shortest_path_*.py` has them here. Rows
are means over seeds, twice:

- data `published`: the very data set of the notebook (its seed is 42) in each run, what stands
  beside the published figures. Seeds are those of initial weights, order and noise.
- data `own`: another data set for each seed too. Some are harder than others, for every method.

The blackbox rule is there twice, because the published figure is that of rounding. The notebook's
loss is |<c, y> - z|, with <c, y> summed in float32 and z in float64. Where the path is the shortest
already, that is 0 or a rounding error. An error below 0 makes the gradient -c, and the step by it
is as long as any other: it leads to a path that costs much, which is then made cheaper. (Above 0 it
leads nowhere: a path that is shortest by both costs is so by their sum.) `blackbox, rounded regret`
has that loss, `blackbox` a regret that is 0 there; `about` tells how often the error is below 0.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from benchmarks.common.record import Row


sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from _shortest_path_problem import PATHS, Examples, Split, make_split  # noqa: E402
from _shortest_path_training import METHODS, Method, train  # noqa: E402

from jaxmatch.estimators import Blackbox  # noqa: E402


PUBLISHED_DATA = 42
EPOCHS = 20


class Published(NamedTuple):
    """Of the notebook: regret after the last epoch, and the time of its run."""

    percent: float
    seconds: float


PUBLISHED = {
    "SPO+": Published(7.59, 165.0),
    "perturbation gradient": Published(14.16, 223.4),
    "perturbed Fenchel-Young": Published(7.29, 297.1),
    "perturbed": Published(9.88, 306.1),
    "implicit MLE": Published(12.07, 608.8),
    "adaptive implicit MLE": Published(7.24, 614.1),
    "negative identity": Published(8.90, 156.0),
    "blackbox, rounded regret": Published(15.12, 298.3),
}
AT_MOST = {"SPO+": 7.8, "perturbed Fenchel-Young": 7.8, "adaptive implicit MLE": 7.8}
WITHIN_ONE = ("perturbed", "implicit MLE", "negative identity")
SECONDS = {"gpu": 1.0, "cpu": 2.0}  # for a run of 20 epochs; two cores


def rounded_regret(predicted: Any, seen: Examples, key: Any, state: Any) -> jax.Array:
    """As computed in the notebook: a sum in float32, minus a sum in float64 that was rounded."""
    path = Blackbox(20.0).solution(PATHS, predicted)
    return jnp.abs((path * seen.cost).sum(-1) - seen.value)


ALL = METHODS | {"blackbox, rounded regret": Method(rounded_regret)}


def rounding_signs(examples: Examples) -> dict[str, float]:
    """Shares of the examples by the sign of the regret of their own shortest path, in float32."""
    regret = np.asarray(jax.jit(lambda x: (x.path * x.cost).sum(-1) - x.value)(examples))
    return {
        "below_0": float((regret < 0).mean()),
        "0": float((regret == 0).mean()),
        "above_0": float((regret > 0).mean()),
    }


def run(
    seeds: Sequence[int] = range(10),
    methods: Sequence[str] = tuple(ALL),
    *,
    epochs: int = EPOCHS,
    size: int = 1000,
) -> list[Row]:
    """A row for each method and kind of data. Runs are one at a time, and timed so."""
    kinds: dict[str, list[Split]] = {
        "published": [make_split(PUBLISHED_DATA, size, size)] * len(seeds),
        "own": [make_split(seed, size, size) for seed in seeds],
    }
    rows = []
    with tqdm(total=2 * len(methods) * len(seeds), unit="run", desc="shortest path") as bar:
        for name in methods:
            start = time.perf_counter()
            arguments = kinds["own"][0], jax.random.key(0), ALL[name], epochs
            compiled = train.lower(*arguments).compile()
            compiling = time.perf_counter() - start
            for kind, splits in kinds.items():
                regrets, seconds = [], []
                for seed, split in zip(seeds, splits, strict=True):
                    bar.set_postfix_str(f"{name}, seed {seed}", refresh=False)
                    start = time.perf_counter()
                    found = jax.block_until_ready(compiled(split, jax.random.key(seed)))
                    seconds.append(time.perf_counter() - start)
                    regrets.append(100 * float(found.regret[-1]))
                    bar.update()
                published = PUBLISHED.get(name) if kind == "published" else None
                rows.append(
                    {
                        "method": name,
                        "data": kind,
                        "regret_percent": statistics.fmean(regrets),
                        "standard_error": standard_error(regrets),
                        "published_percent": published and published.percent,
                        "seconds": statistics.median(seconds),
                        "published_seconds": published and published.seconds,
                        "compile_seconds": compiling,
                        "seeds": list(seeds),
                        "regrets_percent": regrets,
                    }
                )
    return rows


def standard_error(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def criteria(rows: Sequence[Row]) -> list[Row]:
    """Goals on the published data, and whether this run reached them."""
    by_name = {row["method"]: row for row in rows if row["data"] == "published"}
    found = []
    for name, most in AT_MOST.items():
        found.append((f"{name}: regret [%] at most", by_name[name]["regret_percent"], most))
    for name in WITHIN_ONE:
        off = abs(by_name[name]["regret_percent"] - PUBLISHED[name].percent)
        found.append((f"{name}: regret off the published one [%] by at most", off, 1.0))
    slowest = max(row["seconds"] for row in by_name.values())
    backend = "gpu" if jax.default_backend() == "gpu" else "cpu"
    found.append((f"slowest run on the {backend} [s] below", slowest, SECONDS[backend]))
    return [
        {"criterion": name, "measured": got, "goal": goal, "reached": got <= goal}
        for name, got, goal in found
    ]


def about() -> dict[str, Any]:
    """For the record beside the rows."""
    signs = rounding_signs(make_split(PUBLISHED_DATA).train)
    return {"published_data_seed": PUBLISHED_DATA, "rounded_regret_of_shortest_paths": signs}

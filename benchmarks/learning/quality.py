"""The quality of gradients, and the time of each: a part of `learning`.
The truth is the Jacobian of the smoothed solution `y_sigma(C) = E[y(C + sigma Z)]` for assignments
of 3, 4 and 5 rows, whose permutations can be enumerated. It is computed in NumPy and has nothing in
common with the rules that are measured. `ABOUT` explains the columns.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common.record import Row
from benchmarks.common.timing import median_ms
from benchmarks.learning.exact_jacobian import (
    LAWS,
    LOSSES,
    QUARTERS,
    SIGMAS,
    Problems,
    make_problems,
)
from jaxmatch.estimators import (
    AdaptiveImplicitMLE,
    Blackbox,
    Entropic,
    Estimator,
    Identity,
    ImplicitMLE,
    Perturbed,
)


SIDES = (3, 4, 5)
STEPS = (0.1, 0.25, 1.0)  # times |C| / |d|
ADAPTING = 400  # updates of alpha, which begins at STEPS[1] and moves by 0.001
ENTROPIES = (0.5, 1.0)  # times sigma
TARGETS = (1.0, 10.0)  # of adaptive implicit MLE
TIMED = (64, 32)  # problems, rows


# ---------------------------------------------------------------------------------------------
# The rules


class Entry(NamedTuple):
    """A rule and its measurement. `of`: the estimator, from sigma and `|C| / |d|` of each problem;
    `noise`: the law of noise whose Jacobian it is held against, which is the rule's own unless
    `own` is False; `step`: times `|C| / |d|`; `largest`: measured at the largest size alone, to
    save time."""

    rule: str
    of: Callable[[float, Any], Estimator]
    noise: str = "normal"
    own: bool = True
    samples: int = 0
    step: float | None = None
    largest: bool = False


def entries() -> Iterator[Entry]:
    for p in ("invariant", "none", "mean", "norm", "std"):
        yield Entry(f"Identity {p}", lambda s, r, p=p: Identity(p), own=False)  # pyright: ignore
    for central, step in itertools.product((False, True), (*STEPS, 4.0)):
        name = "Blackbox central" if central else "Blackbox"
        yield Entry(name, lambda s, r, a=step, c=central: Blackbox(a * r, c), own=False, step=step)
    for noise, samples in itertools.product(LAWS, (10, 100)):
        for variate, both in (("others", 0), ("others", 1), ("solution", 0), ("none", 0)):
            perturbed = partial(_perturbed, samples, noise, variate, bool(both))
            name = f"Perturbed {noise}, {'symmetric' if both else variate}"
            yield Entry(name, perturbed, noise, samples=samples, largest=variate != "others")
    kinds = [("normal", c, a) for c, a in itertools.product((False, True), STEPS)]
    for noise, central, step in (*kinds, ("gumbel", False, 1.0), ("sum_of_gamma", False, 1.0)):
        name = f"ImplicitMLE {noise}" + (", central" if central else "")
        law = noise if noise in LAWS else "gumbel"
        implicit = partial(_implicit, noise, central, step)
        yield Entry(name, implicit, law, noise in LAWS, 10, step, noise != "normal")
    for target in TARGETS:
        name = f"AdaptiveImplicitMLE normal, target {target:g}"
        yield Entry(name, partial(_adaptive, target), samples=10, largest=True)
    for step in ENTROPIES if importlib.util.find_spec("ott") else ():
        name = f"Entropic, {step:g} sigma"
        yield Entry(name, lambda s, r, a=step: Entropic(a * s), own=False, largest=True)


def _perturbed(samples: int, noise: Any, variate: Any, both: bool, s: float, r: Any) -> Estimator:
    return Perturbed(s, samples, noise, variate, both)


def _implicit(noise: Any, central: bool, step: float, s: float, r: Any) -> Estimator:
    return ImplicitMLE(step * r, s, 10, noise, central=central)


def _adaptive(target: float, s: float, r: Any) -> Estimator:
    return AdaptiveImplicitMLE(noise_strength=s, num_samples=10, noise="normal", target=target)


@jax.jit
def _solution_and_gradient(rule: Any, cost: Any, d: Any, key: Any, state: Any) -> Any:
    """A rule is a pytree, so that strengths do not make it compile again."""

    def solution(cost: jax.Array) -> jax.Array:
        return jm.assignment_matrix(cost, estimator=rule, key=key, state=state)

    y, back = jax.vjp(solution, cost)
    return y, back(d)[0]


def gradients(rule: Any, cost: Any, d: Any, key: Any = None, state: Any = None) -> jax.Array:
    """The rule's own product of d and its Jacobian."""
    return _solution_and_gradient(rule, cost, d, key, state)[1]


def ratio_of(cost: np.ndarray, d: np.ndarray) -> np.ndarray:
    """|C| / |d| of each problem."""
    of_cost, of_d = (np.sqrt((x**2).sum((-1, -2))) for x in (cost, d))
    return (of_cost / of_d).astype(np.float32)


@jax.jit
def _adapted(rule: Any, cost: Any, d: Any) -> Any:
    def step(state: Any, key: Any) -> Any:
        return rule.update(state, gradients(rule, cost, d, key, state)), None

    keys = jax.random.split(jax.random.key(5), ADAPTING)
    return jax.lax.scan(step, rule.init(STEPS[1]), keys)[0]


# ---------------------------------------------------------------------------------------------
# Measures


def measures(estimates: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """Of gradients `[keys, problems, n, n]` against exact ones `[quarters, problems, n, n]`.

    A squared length of a mean is made from means of two independent halves of the noise, so that
    what is left of the noise does not count as length, nor as bias. Differences of quarters have
    the noise of halves and nothing else: their products tell from where on a bias can be seen.
    """
    g = estimates.reshape(*estimates.shape[:2], -1).astype(np.float64)
    t = exact.reshape(*exact.shape[:2], -1)
    truth, mean = t.mean(0), g.mean(0)
    parts = [g[k::QUARTERS].mean(0) if len(g) > 1 else mean for k in range(QUARTERS)]
    (a, b), (of_a, of_b) = _halves(parts), _halves(t)
    length = (of_a * of_b).sum()
    ours = (a * b).sum()
    scale = (mean * truth).sum() / ours if ours > 0 else 0.0

    def bias(scale: float) -> float:
        return math.sqrt(max(((scale * a - of_a) * (scale * b - of_b)).sum() / length, 0))

    errors = [x - y for x, y in zip(parts, t, strict=True)]
    noise = ((errors[0] - errors[1]) * (errors[2] - errors[3])).sum(-1) / 4
    products = np.einsum("kpe,pe->kp", g, truth)
    squares = np.einsum("kpe,kpe->kp", g, g)
    of_truth = (truth**2).sum(-1)
    spread = squares.sum(1).mean() - (mean**2).sum()
    found = {
        "cosine": _cosine(products.sum(1), squares.sum(1), of_truth.sum()),
        "cosine_each": _cosine(products, squares, of_truth),
        "cosine_of_mean": _cosine((mean * truth).sum(), (mean**2).sum(), of_truth.sum()),
        "scale": scale,
        "bias": bias(1.0),
        "bias_rescaled": bias(scale),
        "bias_seen_from": math.sqrt(3 * math.sqrt((noise**2).sum()) / length),
        "variance": spread * len(g) / (len(g) - 1) / length if len(g) > 1 else 0.0,
        "zero_share": (squares == 0).mean(),
    }
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def _halves(quarters: Any) -> tuple[np.ndarray, np.ndarray]:
    return (quarters[0] + quarters[1]) / 2, (quarters[2] + quarters[3]) / 2


def _cosine(product: np.ndarray, square: np.ndarray, of_truth: np.ndarray) -> float:
    """On average, 0 where the gradient is 0."""
    both = np.sqrt(square * of_truth)
    return float(np.where(both > 0, product / np.where(both > 0, both, 1), 0).mean())


def estimate(entry: Entry, sigma: float, problems: Problems, keys: int) -> tuple[Any, Any]:
    """Gradients `f32[keys, losses, problems, n, n]`, with other noise for each, and alpha of an
    adaptive rule for each loss, or None."""
    cost, d = problems.cost, problems.cotangent
    rule = entry.of(sigma, ratio_of(cost, d))
    if not rule.needs_key:
        both = np.broadcast_to(cost, d.shape)
        return np.asarray(gradients(rule, both, d))[None], None
    many, of_many = (np.broadcast_to(x, (keys, *d.shape)) for x in (cost, d))
    if not isinstance(rule, AdaptiveImplicitMLE):
        return np.asarray(gradients(rule, many, of_many, jax.random.key(7))), None
    found, alphas = [], []
    for loss in range(len(LOSSES)):
        state = _adapted(rule, cost, d[loss])
        found.append(gradients(rule, many[:, 0], of_many[:, loss], jax.random.key(7), state))
        alphas.append(round(float(state.alpha), 3))
    return np.stack(found, 1), alphas


def time_of(entry: Entry) -> float:
    """Milliseconds of the solution and a gradient of a batch of real size, with sigma 1."""
    cost, d = _timed_problems()
    rule = entry.of(1.0, ratio_of(cost, d))
    state = rule.init(STEPS[1]) if isinstance(rule, AdaptiveImplicitMLE) else None
    key = jax.random.key(9) if rule.needs_key else None
    arguments = jax.device_put((rule, cost, d, key, state))
    return median_ms(_solution_and_gradient, *arguments, budget=0.15)


def time_of_solve() -> float:
    solve = jax.jit(lambda cost: jm.solve_assignment(cost).col4row)
    return median_ms(solve, jax.device_put(_timed_problems()[0]), budget=0.3)


def _timed_problems() -> tuple[np.ndarray, np.ndarray]:
    problems, n = TIMED
    return tuple(np.random.default_rng(3).standard_normal((2, problems, n, n), np.float32))


# ---------------------------------------------------------------------------------------------
# Rows


def run(args: argparse.Namespace) -> list[Row]:
    """A row for each rule, sigma, loss and number of rows."""
    quick = args.quick
    sides = SIDES[:1] if quick else SIDES
    matrices, cotangents, draws, keys = (8, 2, 8000, 32) if quick else (16, 2, 16_000, 256)
    rules = [entry for entry in entries() if args.rows.search(f"quality {entry.rule}")]
    solve = time_of_solve()
    seconds = [time_of(entry) for entry in tqdm(rules, desc="time of gradients")]
    rows = []
    every = [
        (n, entry, time)
        for n, (entry, time) in itertools.product(sides, zip(rules, seconds, strict=True))
        if n == sides[-1] or not entry.largest
    ]
    problems: dict[int, Problems] = {}
    for n, entry, time in tqdm(every, desc="quality of gradients"):
        if n not in problems:
            problems[n] = make_problems(n, matrices, cotangents, draws)
        for sigma in SIGMAS:
            found, alphas = estimate(
                entry, sigma, problems[n], keys // (4 if entry.samples > 10 else 1)
            )
            exact = problems[n].gradient[entry.noise, sigma]
            for k, loss in enumerate(LOSSES):
                rows.append(
                    {
                        "rule": entry.rule,
                        "samples": entry.samples,
                        "step": alphas[k] if alphas else entry.step,
                        "sigma": sigma,
                        "loss": loss,
                        "side": n,
                        "truth": entry.noise,
                        "own_truth": entry.own,
                        **measures(found[:, k], exact[:, k]),
                        "us_per_gradient": float(f"{1e3 * time / TIMED[0]:.4g}"),
                        "by_solve": float(f"{time / solve:.4g}"),
                    }
                )
    return rows


ABOUT = {
    "rule": "and the law of its noise; of Perturbed also the control variate",
    "samples": "of noise, for one gradient",
    "step": "of Blackbox and implicit MLE, by |C| / |d| of each problem; of the adaptive rule the "
    f"alpha after {ADAPTING} updates from {STEPS[1]}, which is the same number",
    "sigma": "strength of the noise, of the truth and of rules with noise; costs are standard "
    "normal numbers",
    "loss": "linear: cotangents d of standard normal numbers; hamming: of the number of pairs that "
    "differ from the solution of costs with as much noise as signal",
    "side": "rows and columns of the assignment",
    "truth, own_truth": "law of the noise of the exact Jacobian, and whether a rule aims at it",
    "cosine": "of one estimate for a batch, all its problems as one vector, with the exact "
    "gradient; mean over keys",
    "cosine_each": "of one estimate for one problem, 0 if the estimate is 0; mean over keys and "
    "problems",
    "cosine_of_mean": "of the mean over keys, of a batch as one vector",
    "scale": "what the mean is to be multiplied by to be nearest to the exact gradient: a learning "
    "rate can do that, so that only its changes with sigma and loss matter",
    "bias": "|mean - exact| / |exact|, without what noise adds to it",
    "bias_rescaled": "the same after multiplication by `scale`",
    "bias_seen_from": "from noise alone, its square would be three standard errors: a bias below "
    "it is none",
    "variance": "E |estimate - mean|^2 / |exact|^2",
    "zero_share": "of problems whose gradient is 0 in all entries",
    "us_per_gradient": f"microseconds of a solution and its gradient, of {TIMED[0]} problems of "
    f"{TIMED[1]} rows at a time, with sigma 1 and the row's step",
    "by_solve": "the same by the time of a plain solve: on a CPU read this one",
}


def tables(rows: list[Row]) -> dict[str, list[Row]]:
    """For people: the largest size, one table for each sigma, both losses in a line."""
    side = max((row["side"] for row in rows), default=0)
    found = {}
    for sigma in SIGMAS:
        some = [row for row in rows if (row["side"], row["sigma"]) == (side, sigma)]
        by_loss = [[row for row in some if row["loss"] == loss] for loss in LOSSES]
        found[f"gradient quality, {side} rows, sigma {sigma:g} (linear loss, unless said)"] = [
            {
                "rule": row["rule"],
                "M": row["samples"] or "",
                "step": "" if row["step"] is None else f"{row['step']:g}",
                "cosine": row["cosine"],
                "hamming": other["cosine"],
                "of mean": row["cosine_of_mean"],
                "scale": row["scale"],
                "bias": _seen(row, "bias"),
                "rescaled": _seen(row, "bias_rescaled"),
                "variance": row["variance"],
                "zeros": row["zero_share"],
                "us": row["us_per_gradient"],
                "by solve": row["by_solve"],
            }
            for row, other in zip(*by_loss, strict=True)
        ]
    return found


def _seen(row: dict[str, Any], name: str) -> str:
    least = row["bias_seen_from"]
    return f"<{least:.2g}" if row[name] < least else f"{row[name]:.2g}"

"""Bring copies of molecules back onto the originals, whatever the order of their atoms.

    python examples/align_molecules.py
    python examples/align_molecules.py --quick     # fewer molecules, for a first look

About 15 s on two cores of an Intel Xeon.

The molecules are those of the G2 set that `ase` ships. Each copy is turned at random, its atoms are
shuffled and moved a little. How far apart is the copy from the original? The root mean square
deviation (RMSD) depends on which atom is taken for which. Three ways to find that out:

- *as given*: the best assignment of atoms, without a motion. Scripts do this before they align.
- *axes of inertia*: turn the copy so that its axes of inertia lie on those of the original, find
  the best assignment, then the best motion. Where two axes have nearly the same moment, or where
  the direction of an axis is open, this fails.
- `solve_alignment`: assignments and motions in turns from 64 starts, for all molecules in one call.
  Only atoms of the same element are pairs, and smaller molecules are masked.

At the end: a table, and a picture.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from _align_molecules_plots import draw
from ase.build import molecule
from ase.collections import g2
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

LEAST_ATOMS = 6
SHOWN = "C6H6"


class Molecules(NamedTuple):
    """Originals and copies, padded to the same number of atoms."""

    names: list[str]
    original: Float[np.ndarray, "b n 3"]
    copy: Float[np.ndarray, "b n 3"]
    elements: Int[np.ndarray, "b n"]
    copied_elements: Int[np.ndarray, "b n"]
    exists: Bool[np.ndarray, "b n"]
    true_rmsd: Float[np.ndarray, " b"]  # with the atoms and the motion that made the copy


def load(noise: float, count: int | None, seed: int) -> Molecules:
    rng = np.random.default_rng(seed)
    found = {name: molecule(name) for name in g2.names}
    names = [name for name in found if len(found[name]) >= LEAST_ATOMS]
    names = sorted(names, key=lambda name: (name != SHOWN, name))[:count]
    size = max(len(found[name]) for name in names)
    x, y = np.zeros((2, len(names), size, 3))
    elements = np.zeros((2, len(names), size), int)
    true = []
    for k, name in enumerate(names):
        atoms, n = found[name], len(found[name])
        moved = noise * rng.normal(size=(n, 3))
        order = rng.permutation(n)
        x[k, :n], elements[0, k, :n] = atoms.positions, atoms.numbers
        turn = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
        y[k, :n] = ((atoms.positions + moved) @ turn.T + rng.normal(size=3))[order]
        elements[1, k, :n] = atoms.numbers[order]
        true.append(best_motion(atoms.positions, atoms.positions + moved)[1])
    exists = np.arange(size) < np.array([len(found[name]) for name in names])[:, None]
    return Molecules(names, x, y, elements[0], elements[1], exists, np.array(true))


def best_motion(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The rotation that brings x to y, and the RMSD after it (Kabsch)."""
    x, y = x - x.mean(0), y - y.mean(0)
    u, s, vt = np.linalg.svd(x.T @ y)
    sign = np.sign(np.linalg.det(u) * np.linalg.det(vt))
    rotation = vt.T * [1, 1, sign] @ u.T
    return rotation, float(np.sqrt(((x @ rotation.T - y) ** 2).sum(-1).mean()))


def assigned(x: np.ndarray, y: np.ndarray, kinds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    cost = ((x[:, None] - y) ** 2).sum(-1)
    return linear_sum_assignment(np.where(kinds[0][:, None] == kinds[1], cost, 1e6))[1]


def by_scripts(given: Molecules) -> dict[str, np.ndarray]:
    """RMSDs of the two ways without many starts."""
    found = {"as given": [], "axes of inertia": []}
    for k in range(len(given.names)):
        here = given.exists[k]
        x, y = given.original[k, here], given.copy[k, here]
        kinds = given.elements[k, here], given.copied_elements[k, here]
        x, y = x - x.mean(0), y - y.mean(0)
        found["as given"].append(best_motion(x, y[assigned(x, y, kinds)])[1])
        x_axes, y_axes = (np.linalg.eigh(p.T @ p)[1] for p in (x, y))
        x_axes[:, 0] *= np.sign(np.linalg.det(x_axes) * np.linalg.det(y_axes))
        turned = x @ x_axes @ y_axes.T  # a rotation
        found["axes of inertia"].append(best_motion(x, y[assigned(turned, y, kinds)])[1])
    return {name: np.array(x) for name, x in found.items()}


def by_alignment(given: Molecules, starts: int) -> tuple[jm.Alignment, float]:
    """One call for all molecules, compiled before its time is taken."""

    def solve(x: Array, y: Array) -> jm.Alignment:
        return jm.solve_alignment(
            x,
            y,
            x_kind=given.elements,
            y_kind=given.copied_elements,
            x_mask=given.exists,
            y_mask=given.exists,
            starts=starts,
        )

    points = [x.astype(np.float32) for x in (given.original, given.copy)]
    compiled = jax.jit(solve)
    jax.block_until_ready(compiled(*points))
    begin = time.perf_counter()
    res = jax.block_until_ready(compiled(*points))
    return jax.tree.map(np.asarray, res), time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description="align molecules whose atoms are shuffled")
    parser.add_argument("--quick", action="store_true", help="a dozen molecules")
    parser.add_argument("--noise", type=float, default=0.05, help="in angstrom, of a coordinate")
    parser.add_argument("--starts", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/align_molecules"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    given = load(args.noise, 12 if args.quick else None, args.seed)
    rmsd = by_scripts(given)
    res, seconds = by_alignment(given, args.starts)
    rmsd["solve_alignment"] = res.rmsd
    print(f"{len(given.names)} molecules, of 6 to {given.exists.sum(1).max()} atoms, "
          f"{args.starts} starts each: {seconds:.2f} s in one call")  # fmt: skip
    print(f"{'':18} {'mean RMSD':>10}  {'as near as the copy was made':>28}")
    reached = {}
    for name, x in rmsd.items():
        reached[name] = float((x <= given.true_rmsd * 1.001 + 1e-4).mean())
        print(f"{name:18} {x.mean():8.3f} Å  {reached[name]:28.0%}")
    facts = {"molecules": given.names, "seconds": seconds, "reached": reached}
    facts |= {"rmsd": {name: x.tolist() for name, x in rmsd.items()}}
    facts |= {"agree": res.agree.tolist(), "true_rmsd": given.true_rmsd.tolist()}
    (args.out / "align_molecules.json").write_text(json.dumps(facts))
    k, here = 0, given.exists[0]
    moved = given.original[k] @ res.rotation[k].T + res.translation[k]
    shown = (given.original[k, here], given.copy[k, here], moved[here], res.col4row[k, here])
    draw(args.out / "align_molecules.png", given.names[k], shown, given.elements[k, here], rmsd,
         given.true_rmsd)  # fmt: skip
    print(f"wrote {args.out / 'align_molecules.png'}")


if __name__ == "__main__":
    main()

"""Two steps of the detection example on the devices of all processes, the same program in each:

    detector_step.py RESULTS [ADDRESS PROCESSES INDEX]

Writes costs, losses and parameters to the file RESULTS.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax
from jax.experimental import multihost_utils


sys.path.append(str(Path(__file__).parents[3] / "examples"))
import digits_detection as example  # noqa: E402


def meet(results: Path, processes: int) -> None:
    """Waits until all have compiled, by files: gloo would give up after half a minute."""
    results.with_suffix(".compiled").touch()
    while len(list(results.parent.glob(f"{processes}_*.compiled"))) < processes:
        time.sleep(0.05)


def main(results: str, *address: str) -> None:
    if address:
        where, processes, index = address
        jax.distributed.initialize(where, int(processes), int(index), initialization_timeout=200)
    mesh = example.mesh_of(4)
    digits, _ = example.load_split()
    optimizer = optax.sgd(1e-2)
    model = example.DigitsDETR(example.NUM_CLASSES, width=8, key=jax.random.key(0))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    digits, model, state = example.everywhere((digits, model, state), mesh)
    keys = jax.random.split(jax.random.key(2), 2)
    fixed = [(digits, key, "jaxmatch", optimizer, mesh) for key in keys]
    train_step = example.train_step.lower(fixed[0], model, state).compile()
    meet(Path(results), int(address[1]) if address else 1)
    found = {}
    for step, given in zip(("first", "second"), fixed, strict=True):
        model, state, loss, (costs, _) = train_step(given, model, state)
        costs, matching, total = multihost_utils.process_allgather(
            (costs, loss.matching, loss.total), tiled=True
        )
        found |= {f"{step}_costs": costs, f"sum_{step}": total}
        found |= {f"{step}_matching_{name}": x for name, x in vars(matching).items()}
    parameters = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    found |= {f"parameter_{i}": np.asarray(x) for i, x in enumerate(parameters)}
    np.savez(results, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])

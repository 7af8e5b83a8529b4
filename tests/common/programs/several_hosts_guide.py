"""The guide's program on the devices of all processes:

    several_hosts_guide.py RESULTS [ADDRESS PROCESSES INDEX]

Writes its problems and results to the file RESULTS.
"""

import runpy
import sys
from pathlib import Path

import numpy as np
from jax.experimental.multihost_utils import process_allgather


GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "several_hosts.py"

if __name__ == "__main__":
    results = sys.argv.pop(1)
    names = runpy.run_path(str(GUIDE))
    problems = {name: process_allgather(names[name], tiled=True) for name in ("cost", "rows")}
    batch = process_allgather(names["batch"], tiled=True)
    found = {f"batch_{name}": x for name, x in vars(batch).items()}
    found |= {f"one_{name}": x for name, x in vars(names["one"]).items()}
    np.savez(results, allow_pickle=False, **problems, **found)

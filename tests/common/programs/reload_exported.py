"""Calls what another process exported: from a folder, to a file of leaves for each."""

import pickle
import sys
from pathlib import Path

import jax
import numpy as np

import jaxmatch  # noqa: F401 (registers targets and types)


for file in Path(sys.argv[1]).glob("*.exported"):
    exported = jax.export.deserialize(bytearray(file.read_bytes()))
    inputs = pickle.loads(file.with_suffix(".inputs").read_bytes())
    result = exported.call(*inputs)
    leaves = [np.asarray(x) for x in jax.tree.leaves(result)]
    file.with_suffix(".result").write_bytes(pickle.dumps((str(jax.tree.structure(result)), leaves)))

"""Small batches under noise and their derivatives on the GPU, for tools that watch memory:

    PYTHONPATH=tests/support compute-sanitizer --tool memcheck python \
        tests/gpu/sweep_perturbed_gpu.py [ASKED [few]]

test_sanitizer.py runs it. The arguments are those of sweep_assignment_gpu.py.
"""

import os
import sys
from functools import partial

import jax
import numpy as np

import jaxmatch as jm


# An odd number of entries, one block and many, more columns than rows and more rows than columns.
SHAPES = [(1, 1, 1), (3, 5, 5), (2, 9, 30), (2, 40, 33), (1, 90, 100)]


def main(asked: str = "", few: str = "") -> None:
    os.environ["JAXMATCH_CUDA_KERNEL"] = f",{asked}"
    rng = np.random.default_rng(0)
    derivatives = 0
    for b, n, m in SHAPES[2:4] if few else SHAPES:
        cost, d = rng.normal(size=(2, b, n, m)).astype(np.float32)
        masks = {"row_mask": rng.random((b, n)) < 0.7, "col_mask": rng.random((b, m)) < 0.6}
        leave = {"unmatched_cost": np.full((b, n), 0.3, np.float32)}
        for noise in ("normal", "gumbel"):
            for given in ({}, masks | leave) if few else ({}, masks, leave, masks | leave):
                rule = jm.estimators.Perturbed(0.5, 11, noise, symmetric=noise == "normal")
                matrix = partial(jm.assignment_matrix, estimator=rule, key=jax.random.key(0))
                y, back = jax.vjp(partial(matrix, **given), cost)
                assert np.isfinite(y).all() and np.isfinite(back(d)[0]).all()
                derivatives += 1
    print(f"{derivatives} derivatives")


if __name__ == "__main__":
    main(*sys.argv[1:])

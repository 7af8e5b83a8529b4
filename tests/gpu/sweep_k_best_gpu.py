"""Small problems of k best assignments on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck python tests/gpu/sweep_k_best_gpu.py [few]

test_sanitizer.py runs it. `few` leaves out what takes racecheck minutes.
"""

import sys

import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


# Batches, dtypes and lists; the last problem exceeds the shared memory.
CASES = [
    ((1, 1, 1), "float32", 3),
    ((3, 4, 4), "bfloat16", 30),
    ((2, 3, 40), "int32", 30),
    ((2, 40, 3), "float32", 2),
    ((2, 40, 70), "float32", 30),
    ((2, 33, 33), "int32", 1),
    ((1, 260, 260), "float32", 8),
]


def main(few: str = "") -> None:
    rng = np.random.default_rng(0)
    problems = 0
    for (b, n, m), dtype, k in CASES[1:3] if few else CASES:
        rows = jnp.asarray(rng.random((b, n)) < 0.8).at[:, 0].set(True)
        for most in (5,) if few else (5, 10**4):
            cost = jnp.asarray(rng.integers(0, most, (b, n, m)), dtype)
            for given in ({}, {"maximize": True, "row_mask": rows}):
                res = jm.k_best_assignments(cost, k, **given)
                assert (res.status == jm.Status.OPTIMAL).all()
                assert jm.check_k_best(cost, res, **given).valid.all()
                problems += b
    print(f"{problems} problems")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Small problems by the methods for large ones on the GPU, for tools that watch memory:

    PYTHONPATH=tests/support compute-sanitizer --tool memcheck python \
        tests/gpu/sweep_assignment_large_gpu.py METHOD [few]

test_sanitizer.py runs it. `few` leaves out what takes racecheck minutes.
"""

import sys

import jax
import numpy as np

import jaxmatch as jm


FEW = [(40, 40), (20, 50), (50, 20), (20, 200)]  # the last has more columns than a core
SHAPES = [*FEW, (60, 60), (300, 530)]


def main(method: str, few: str = "") -> None:
    rng = np.random.default_rng(0)
    solved = 0

    def solve(costs: np.ndarray, **given) -> None:
        nonlocal solved
        result = jm.solve_assignment(costs, method=method, **given)
        assert result.status == jm.Status.OPTIMAL
        solved += 1

    for n, m in FEW if few else SHAPES:
        random = rng.random((n, m), np.float32)
        masks = {"row_mask": rng.random(n) < 0.7, "col_mask": rng.random(m) < 0.6}
        for given in ({}, {"maximize": True}, masks, {"steps_per_call": 1}):
            solve(random, **given)
        for given in ({}, masks):
            solve(np.round(9 * random).astype(np.int32), **given)  # ties
        with jax.enable_x64(True):
            solve(rng.normal(size=(n, m)))
    for n, m in [(20, 50)] if few else [(40, 40), (300, 530)]:
        x, y = rng.normal(size=(n, 3)), 3 + rng.normal(size=(m, 3)) * [1, 0.3, 0.1]
        for metric in ("sqeuclidean",) if few else ("sqeuclidean", "euclidean", "l1", "cosine"):
            points = (k.astype(np.float32) for k in (x, y))
            result = jm.solve_assignment_points(*points, metric=metric, method=method)
            assert result.status == jm.Status.OPTIMAL
            solved += 1
    print(f"solved {solved} problems")


if __name__ == "__main__":
    main(*sys.argv[1:])

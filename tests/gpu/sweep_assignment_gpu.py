"""Small batches of every kernel and feature on the GPU, for tools that watch memory:

    PYTHONPATH=tests/support compute-sanitizer --tool memcheck python \
        tests/gpu/sweep_assignment_gpu.py [ASKED [few]]

test_sanitizer.py runs it. ASKED is what to ask for of every kernel. `few` leaves out what takes
racecheck minutes.
"""

import os
import sys

import jax
import numpy as np

import jaxmatch as jm


# Both kinds of kernel; shapes in place, copied whole, turned, and by way of the workspace.
SHAPES = {
    "": [(3, 5, 5), (2, 30, 9), (2, 40, 61), (2, 90, 100), (1, 130, 140), (1, 300, 40)],
    "block": [(1, 60, 60), (1, 30, 520)],
    # A cluster of two blocks for the last three.
    "block,auction": [(2, 200, 200), (1, 260, 260), (1, 257, 270), (1, 300, 280)],
    "block,auction,cluster-1": [(1, 260, 260)],
}
FEW = {
    "": [(2, 30, 9), (1, 40, 61)],
    "block": [(1, 60, 60)],
    "block,auction": [(1, 200, 200), (1, 257, 270)],
}


def features(shape: tuple[int, int, int], rng: np.random.Generator) -> list[dict]:
    b, n, m = shape
    masks = {"row_mask": rng.random((b, n)) < 0.7, "col_mask": rng.random((b, m)) < 0.6}
    leave = {"unmatched_cost": np.full((b, n), 0.3, np.float32)}
    warm = {"warm_start": rng.normal(size=(b, m)).astype(np.float32)}
    return [{"maximize": True}, masks, leave, masks | leave, warm]


def main(asked: str = "", few: str = "") -> None:
    rng = np.random.default_rng(0)
    solved = 0

    def solve(costs: np.ndarray, **given) -> None:
        nonlocal solved
        result = jm.solve_assignment(costs, **given)
        assert (np.asarray(result.status) == jm.Status.OPTIMAL).all()
        solved += len(costs)

    for kernel, shapes in (FEW if few else SHAPES).items():
        os.environ["JAXMATCH_CUDA_KERNEL"] = f"{kernel},{asked}"
        for shape in shapes:
            random = rng.random(shape).astype(np.float32)
            normal = rng.normal(size=shape)
            for given in features(shape, rng)[-2:] if few else features(shape, rng):
                solve(random, **given)
            for dtype in (np.int32,) if few else (np.float32, np.float16, np.int32):
                solve(np.round(9 * random).astype(dtype))  # ties
            solve(normal.astype(np.float32))  # float64 decides
            with jax.enable_x64(True):
                solve(normal)
                solve(np.round(1e15 * normal).astype(np.int64))  # 128-bit integers decide
    print(f"solved {solved} problems")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Small batches of every kernel and feature on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck --kernel-regex kns=assignment python tests/sweep_gpu.py

test_assignment_sanitizer.py runs it.
"""

import os

import jax
import numpy as np

import jaxmatch as jm


# Both kinds of kernel where both fit; shapes in place, copied whole, turned, and in the workspace.
SHAPES = {
    "warp": [(3, 5, 5), (3, 12, 20), (3, 30, 9), (2, 64, 64), (2, 40, 61), (2, 90, 100)],
    "block": [(2, 20, 20), (1, 100, 90), (1, 130, 140), (1, 300, 40), (1, 30, 520)],
}


def features(costs: np.ndarray, rng: np.random.Generator) -> list[dict]:
    b, n, m = costs.shape
    masks = {"row_mask": rng.random((b, n)) < 0.7, "col_mask": rng.random((b, m)) < 0.6}
    leave = {"unmatched_cost": np.full((b, n), 0.3, np.float32)}
    warm = {"warm_start": rng.normal(size=(b, m)).astype(np.float32)}
    return [{}, {"maximize": True}, masks, leave, masks | leave, warm]


def main() -> None:
    rng = np.random.default_rng(0)
    solved = 0
    for kernel, shapes in SHAPES.items():
        os.environ["JAXMATCH_CUDA_KERNEL"] = kernel
        for shape in shapes:
            random = rng.random(shape).astype(np.float32)
            kinds = [random, np.round(9 * random), rng.normal(size=shape).astype(np.float32)]
            for costs in (
                *kinds,
                random.astype(np.float16),
                np.round(99 * random).astype(np.int32),
            ):
                for given in features(costs, rng):
                    if costs.dtype == np.int32 and "unmatched_cost" in given:
                        given["unmatched_cost"] = np.full(shape[:2], 9, np.int32)
                    result = jm.solve_assignment(costs, **given)
                    assert (np.asarray(result.status) == jm.Status.OPTIMAL).all()
                    solved += shape[0]
            with jax.enable_x64(True):
                for costs in (kinds[2].astype(np.float64), np.round(99 * random).astype(np.int64)):
                    result = jm.solve_assignment(costs)
                    assert (np.asarray(result.status) == jm.Status.OPTIMAL).all()
                    solved += shape[0]
    print(f"solved {solved} problems")


if __name__ == "__main__":
    main()

"""The kernels for sharded costs, by each method and side, for tools that watch memory:

    PYTHONPATH=tests/support compute-sanitizer --tool memcheck python \
        tests/gpu/sweep_sharded_costs_gpu.py PART

test_sanitizer.py runs it, a process for each of `PARTS`. On one GPU, which takes the same steps and
gathers from itself.
"""

import sys

import jax
import numpy as np

import jaxmatch as jm


SHAPES = [(45, 70), (70, 45), (140, 140), (60, 530)]
PARTS = ["core", "classical", "tree", "points"]


def main(part: str) -> None:
    rng = np.random.default_rng(0)
    solved = 0

    def check(result: jm.Assignment) -> None:
        nonlocal solved
        assert result.status == jm.Status.OPTIMAL
        solved += 1

    with jax.set_mesh(jax.make_mesh((1,), ("x",), devices=jax.devices()[:1])):
        for n, m in SHAPES:
            if part == "points":
                points = rng.random((n, 2), np.float32), rng.random((m, 2), np.float32)
                for metric in ("sqeuclidean", "cosine"):
                    check(jm.solve_assignment_points(*points, metric=metric, row_axis="x"))
                continue
            for dtype in (np.int32, np.float32, np.float16):
                cost = rng.integers(0, 4 * n, (n, m)).astype(dtype)
                axis = "col_axis" if dtype == np.float32 else "row_axis"
                check(jm.solve_assignment(cost, method=part, **{axis: "x"}))
            ties = np.zeros((n, m), np.int32)  # more zeros than a list has room for
            masks = {"row_mask": rng.random(n) < 0.8, "col_mask": rng.random(m) < 0.9}
            check(jm.solve_assignment(ties, method=part, row_axis="x", **masks))
    print(f"solved {solved} problems")


if __name__ == "__main__":
    main(*sys.argv[1:])

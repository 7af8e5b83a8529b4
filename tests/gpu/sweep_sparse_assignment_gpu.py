"""Small sparse problems on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck python tests/gpu/sweep_sparse_assignment_gpu.py [few]

test_sanitizer.py runs it. `few` leaves out what takes racecheck minutes.
"""

import sys

import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


# Rows, columns, edges a row: also beyond the sides of dense costs, and of more blocks than one.
SHAPES = [(130, 130, 3), (140, 200, 4), (2100, 2100, 4)]
OPTIONS = [{}, {"unmatched_cost": 4.0}, {"cardinality": "maximum"}]


def main(few: str = "") -> None:
    rng = np.random.default_rng(0)
    problems = 0
    for n, m, degree in SHAPES[:1] if few else SHAPES:
        rows = np.concatenate([np.repeat(np.arange(n), degree), np.arange(n)])
        cols = np.concatenate([rng.integers(0, m, n * degree), np.arange(n)])
        for dtype in ("float32", "int32"):
            cost = rng.integers(0, 9, len(rows)).astype(dtype)
            graph, cost = jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (n, m))
            for given in OPTIONS if n < 1000 else OPTIONS[:1]:
                res = jm.solve_sparse_assignment(graph, jnp.asarray(cost), **given)
                assert res.status == jm.Status.OPTIMAL
                problems += 1
    for metric in ("sqeuclidean",) if few else ("sqeuclidean", "cosine"):
        for dims in (2,) if few else (1, 2, 3):
            x, y = (rng.normal(size=(k, dims)).astype(np.float32) for k in (90, 130))
            options = {"metric": metric, "radius": 0.4, "unmatched_cost": 0.1}
            res = jm.solve_assignment_points(jnp.asarray(x), jnp.asarray(y), **options)
            assert res.status == jm.Status.OPTIMAL
            problems += 1
    print(f"{problems} problems")


if __name__ == "__main__":
    main(*sys.argv[1:])

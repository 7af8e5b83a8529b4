"""Small transport problems on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck python tests/gpu/sweep_transport_gpu.py

test_sanitizer.py runs it.
"""

import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


SHAPES = [(1, 1, 1), (2, 3, 7), (2, 40, 33), (1, 90, 140)]
DTYPES = ["bfloat16", "float32", "int32"]


def main() -> None:
    rng = np.random.default_rng(0)
    problems = 0
    for b, n, m in SHAPES:
        supply = rng.integers(1, 9, (b, n)).astype(np.int32)
        demand = np.array([rng.multinomial(x.sum(), np.ones(m) / m) for x in supply], np.int32)
        for dtype in DTYPES:
            cost = jnp.asarray(rng.integers(0, 50, (b, n, m)), dtype)
            for given in ({}, {"partial": n}, {"unmatched_cost": 20}):
                for of_masses in (np.int32, np.float32):
                    masses = supply.astype(of_masses), demand.astype(of_masses)
                    res = jm.solve_transport(cost, *masses, **given)
                    assert (res.status == jm.Status.OPTIMAL).all()
                    problems += b
    print(f"{problems} problems")


if __name__ == "__main__":
    main()

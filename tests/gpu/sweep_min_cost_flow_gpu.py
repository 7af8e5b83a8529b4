"""Small minimum-cost flows on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck python tests/gpu/sweep_min_cost_flow_gpu.py [few]

test_sanitizer.py runs it. `few` leaves out what takes racecheck minutes.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


# Batches, nodes, edges and dtypes; the last network exceeds the shared memory of a block.
CASES = [
    (20, 5, 12, "float32"),
    (20, 40, 200, "int32"),
    (3, 2, 0, "float32"),
    (1, 3000, 9000, "int32"),
]


def main(few: str = "") -> None:
    rng = np.random.default_rng(0)
    problems = 0
    for batch, n, e, dtype in CASES[:2] if few else CASES:
        network = jm.FlowNetwork.from_edges(rng.integers(0, n, e), rng.integers(0, n, e), n)
        supply = rng.integers(-3, 4, (batch, n))
        supply[:, 0] -= supply.sum(-1)
        capacity = rng.integers(0, 30, (batch, e))
        cost = rng.integers(-4, 20, (batch, e))
        # Costs of very different sizes need prices of 128 bits, and some limits count as none.
        spread = cost * (10.0 ** rng.integers(-12, 12, (batch, e)) if dtype == "float32" else 1)
        wide = np.where(rng.random((batch, e)) < 0.1, 10**8, capacity)
        for limits, costs in ((capacity, cost), (wide, spread)):
            given = [jnp.asarray(x, dtype) for x in (limits, costs, supply)]
            res = jm.minimum_cost_flow(network, *given)
            again = jm.minimum_cost_flow(network, *given, warm_start=res)
            check = jm.check_minimum_cost_flow(network, *given, res)
            status = np.asarray(res.status)
            optimal = np.asarray(check.optimal)[status == jm.Status.OPTIMAL]
            assert optimal.all()
            assert np.asarray(check.infeasible)[status == jm.Status.INFEASIBLE].all()
            assert (np.asarray(again.status) == status).all()
            problems += 2 * batch
    print(f"{problems} problems on {jax.devices()[0].platform}")


if __name__ == "__main__":
    main(*sys.argv[1:])

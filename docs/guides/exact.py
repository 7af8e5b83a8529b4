"""What exact means, for the numbers that a solver is given."""

# --8<-- [start:rounded]
import jax, jax.numpy as jnp, numpy as np
import jaxmatch as jm

cost = 1e8 + np.random.default_rng(0).random((50, 50))  # NumPy: float64

exact = jm.solve_assignment(cost)  # solved in 64 bits, x64 or not
rounded = jm.solve_assignment(jnp.asarray(cost))  # JAX has rounded: all costs are equal
float(exact.cost) - 50e8, float(rounded.cost) - 50e8
# --8<-- [end:rounded]
assert len(np.unique(np.asarray(cost, np.float32))) == 1
assert exact.cost.dtype == np.float64 and 0 < float(exact.cost) - 50e8 < 5

# --8<-- [start:x64]
with jax.enable_x64(True):  # or jax.config.update("jax_enable_x64", True), before all else
    inside = jax.jit(jm.solve_assignment)(jnp.asarray(cost))
# --8<-- [end:x64]
np.testing.assert_array_equal(inside.col4row, exact.col4row)

# --8<-- [start:constant]
jax.jit(lambda: jm.solve_assignment(cost).cost)()  # a NumPy array inside is a constant: exact
# --8<-- [end:constant]

# --8<-- [start:gap]
check = jm.check_assignment(cost, exact)
check.valid, check.optimal, check.gap  # feasible, proved optimal, a bound on cost - optimum
if not check.optimal:  # duals that float64 cannot hold
    assert check.gap <= 1e-12 * abs(exact.cost)
# --8<-- [end:gap]

# --8<-- [start:integers]
big = np.random.default_rng(1).integers(0, 2**55, (30, 30))  # int64: exact, no rounding anywhere
jm.solve_assignment(big).gap  # 0
# --8<-- [end:integers]
assert jm.solve_assignment(big).gap == 0

# --8<-- [start:status]
bad = np.stack([cost, np.full_like(cost, np.inf), np.full_like(cost, np.nan)])
res = jm.solve_assignment(bad)
[str(jm.Status(code)) for code in res.status.tolist()]  # OPTIMAL, INFEASIBLE, INVALID_COST
try:
    res.raise_for_status()  # outside of jit
except ValueError as e:
    print(e)
total = np.where(np.isfinite(res.cost), res.cost, 0).sum()  # inside: a mask
# --8<-- [end:status]
assert [jm.Status(code).name for code in res.status.tolist()][1:] == ["INFEASIBLE", "INVALID_COST"]
assert total == exact.cost

# --8<-- [start:limit]
large = np.random.default_rng(2).random((2000, 2000), np.float32)
res = jm.solve_assignment(large, time_limit=0.01)
jm.Status(int(res.status)).name  # TIME_LIMIT; OPTIMAL if the time was enough
res.cost, res.gap  # the optimum is at least cost - gap
# --8<-- [end:limit]
assert res.status in (jm.Status.OPTIMAL, jm.Status.TIME_LIMIT)
assert (res.col4row >= 0).all() and 0 <= res.gap < np.inf

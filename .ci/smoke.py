"""One problem, solved, differentiated and checked: does this wheel work with this jax?

With the argument `cuda`, the kernels must have been found too.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])

assert jm.has_cpu_library() and jm.has_cuda_library() == ("cuda" in sys.argv)
result = jax.jit(jm.solve_assignment)(cost)
np.testing.assert_array_equal(result.col4row, [1, 0, 2])
assert float(result.cost) == 5.0
assert bool(jm.check_assignment(cost, result).optimal)

gradient = jax.jit(jax.grad(lambda c: jm.solve_assignment(c).cost))(cost)
np.testing.assert_array_equal(gradient, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])

batched = jax.vmap(jm.solve_assignment)(jnp.stack([cost, cost.T]))
np.testing.assert_array_equal(batched.col4row, [[1, 0, 2], [1, 0, 2]])


def matrix(cost, rule):
    return jm.assignment_matrix(cost, estimator=rule, key=jax.random.key(0))


# Gradients of a solution: two native targets, and two solves.
noisy = jm.estimators.Perturbed(0.5, num_samples=20)
for rule in (noisy, jm.estimators.Blackbox(4.0)):
    y, back = jax.vjp(lambda c, rule=rule: matrix(c, rule), cost)
    np.testing.assert_allclose(y.sum(0), 1, rtol=1e-6)
    assert np.abs(back(-cost)[0]).sum() > 0
forward, backward = (jax.jit(j(lambda c: matrix(c, noisy)))(cost) for j in (jax.jacfwd, jax.jacrev))
np.testing.assert_allclose(forward, backward, rtol=1e-5, atol=1e-6)

# On each device of a mesh its own samples.
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("device",))
each, shared = jax.sharding.PartitionSpec("device"), jax.sharding.PartitionSpec()
keys = jax.random.split(jax.random.key(0), mesh.size)


def total(cost, key):
    y = jm.assignment_matrix(cost, estimator=noisy, key=key[0])
    return jax.lax.psum((y * np.arange(9.0).reshape(3, 3)).sum(), "device")


sharded = jax.shard_map(total, mesh=mesh, in_specs=(shared, each), out_specs=shared)
assert np.abs(jax.jit(jax.grad(sharded))(cost, keys)).sum() > 0

print(f"jaxmatch {jm.__version__} works with jax {jax.__version__}")

"""One problem, solved, differentiated and checked: does this wheel work with this jax?"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])

assert jm.has_cpu_library() and jm.has_cuda_library()
result = jax.jit(jm.solve_assignment)(cost)
np.testing.assert_array_equal(result.col4row, [1, 0, 2])
assert float(result.cost) == 5.0
assert bool(jm.check_assignment(cost, result).valid)

gradient = jax.jit(jax.grad(lambda c: jm.solve_assignment(c).cost))(cost)
np.testing.assert_array_equal(gradient, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])

batched = jax.vmap(jm.solve_assignment)(jnp.stack([cost, cost.T]))
np.testing.assert_array_equal(batched.col4row, [[1, 0, 2], [1, 0, 2]])

print(f"jaxmatch {jm.__version__} works with jax {jax.__version__}")

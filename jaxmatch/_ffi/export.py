"""What `jax.export` has to know of our native targets."""

from jax import export

from jaxmatch._ffi.libraries import all_targets


def export_safety_checks() -> list[export.DisabledSafetyCheck]:
    """The checks to disable so that `jax.export` takes functions that call jaxmatch.

    An exported program holds the names of native targets, not their code. The process that loads it
    imports jaxmatch first, of the same version.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> (b,) = jax.export.symbolic_shape("b")
    >>> costs = jax.ShapeDtypeStruct((b, 3, 4), jnp.float32)
    >>> solve = jax.export.export(
    ...     jax.jit(jm.solve_assignment), disabled_checks=jm.export_safety_checks()
    ... )(costs)
    >>> solve.call(jnp.ones((2, 3, 4))).cost
    Array([3., 3.], dtype=float32)

    `solve.serialize()` makes bytes, `jax.export.deserialize` loads them. Results, `BipartiteGraph`
    and `FlowNetwork` may be arguments and results; a `LinearOracle`, which holds functions, must be
    made inside. Batch dimensions may be symbolic, as here. For `platforms=["cpu"]` so may n and m
    of `solve_assignment` by the methods `"auto"` and `"jonker_volgenant"`, and of
    `linear_sum_assignment` with the constraint `"n <= m"` or `"m < n"`. Other symbolic sizes are a
    `ValueError`: methods and buffers depend on them.

    **Returns:** a list of `jax.export.DisabledSafetyCheck`, one for each native target.
    """
    return [export.DisabledSafetyCheck.custom_call(name) for name in all_targets()]

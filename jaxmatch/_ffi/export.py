"""Support for `jax.export` of functions that call native targets."""

from jax import export

from jaxmatch._library.libraries import all_targets


def export_safety_checks() -> list[export.DisabledSafetyCheck]:
    """The checks to disable so that `jax.export` takes functions that call jaxmatch.

    An exported program holds the names of native targets, not their code. The process that loads it
    must first import the same version of jaxmatch.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> (b,) = jax.export.symbolic_shape("b")
    >>> costs = jax.ShapeDtypeStruct((b, 3, 4), jnp.float32)
    >>> solve = jax.export.export(
    ...     jax.jit(jm.solve_assignment), disabled_checks=jm.export_safety_checks()
    ... )(costs)
    >>> solve.call(jnp.ones((2, 3, 4))).cost
    Array([3., 3.], dtype=float32)

    `solve.serialize()` makes bytes (it needs the package flatbuffers), `jax.export.deserialize`
    loads them. Results, checks, `BipartiteGraph` and `FlowNetwork` may be arguments and results of
    the function. A `LinearOracle` holds Python functions, so the exported function must create it.
    `platforms=["cuda"]` exports for a GPU on a machine without one.

    Batch dimensions may be symbolic on every platform; solvers then assume a large batch. With
    `platforms=["cpu"]` and the native library, all sizes of matrices, `BipartiteGraph` and
    `FlowNetwork` may be symbolic, too:

    >>> b, n, m = jax.export.symbolic_shape("b, n, m")
    >>> solve = jax.export.export(
    ...     jax.jit(jm.solve_assignment),
    ...     platforms=["cpu"],
    ...     disabled_checks=jm.export_safety_checks(),
    ... )(jax.ShapeDtypeStruct((b, n, m), jnp.float32))
    >>> [float(solve.call(jnp.ones((1, n, 9))).cost[0]) for n in (3, 5)]
    [3.0, 5.0]

    `linear_sum_assignment` needs the constraint `"n <= m"` or `"m < n"`. Symbolic sizes of a
    problem are an error, which says how to pad, where methods or buffers depend on them: on a GPU,
    for functions of points, `earth_mover_distance`, `grid_cut`, `check_grid_cut`, capacities,
    sharded costs and `stepping`; also for the methods `"core"`, `"auction"`, `"classical"`,
    `"tree"`, and those not native on the CPU.
    With a symbolic number of edges, `check_flow` and `check_minimum_cut` prove nothing if there are
    more than 2^24 edges and capacities are integers.

    **Returns:** a list of `jax.export.DisabledSafetyCheck`, one for each native target.
    """
    return [export.DisabledSafetyCheck.custom_call(name) for name in all_targets()]

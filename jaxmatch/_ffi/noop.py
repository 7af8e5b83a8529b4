"""A target that does nothing, to measure the overhead of a call."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxmatch._ffi.call import Result, native_call


def noop(result_shape_dtypes: Any, *operands: jax.Array) -> Any:
    """A native call with the given results and operands that does no work.

    The results are uninitialised memory. On CUDA it launches one empty kernel.
    """
    like, tree = jax.tree.flatten(result_shape_dtypes)
    results = [Result(x.shape, x.dtype) for x in like]
    core_dims = [jnp.ndim(x) for x in operands]
    return tree.unflatten(native_call("jaxmatch_noop", operands, results, core_dims=core_dims))

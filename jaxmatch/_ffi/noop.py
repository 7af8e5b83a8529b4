"""The target that does nothing."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxmatch._ffi.call import Result, native_call


def noop(result_shape_dtypes: Any, *operands: jax.Array) -> Any:
    """A native call with these results and operands and no work: what calling alone costs.

    The results are whatever was in their memory. On CUDA one empty kernel is launched.
    """
    like, tree = jax.tree.flatten(result_shape_dtypes)
    results = [Result(x.shape, x.dtype) for x in like]
    core_dims = [jnp.ndim(x) for x in operands]
    return tree.unflatten(native_call("jaxmatch_noop", operands, results, core_dims=core_dims))

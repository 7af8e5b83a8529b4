"""The target that does nothing."""

from typing import Any

import jax


def noop(result_shape_dtypes: Any, *operands: jax.Array) -> Any:
    """A native call with these results and operands and no work: what calling alone costs.

    The results are whatever was in their memory. On CUDA one empty kernel is launched.
    """
    call = jax.ffi.ffi_call("jaxmatch_noop", result_shape_dtypes, vmap_method="broadcast_all")
    return call(*operands)

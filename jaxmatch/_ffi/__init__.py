"""The only package that uses `jax.ffi`: loads the native libraries and wraps their targets."""

from jaxmatch._ffi import libraries


libraries.load()

"""The only package that knows `jax.ffi`: it loads the libraries and wraps their targets."""

from jaxmatch._ffi import libraries


libraries.load()

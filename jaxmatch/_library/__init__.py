"""Finds and loads the native libraries, and registers their FFI targets with XLA."""

from jaxmatch._library import libraries


libraries.load()

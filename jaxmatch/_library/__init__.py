"""Finds and loads the native libraries, and registers their targets."""

from jaxmatch._library import libraries


libraries.load()

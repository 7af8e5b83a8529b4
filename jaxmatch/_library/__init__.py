"""The native libraries: where they are found, loaded and asked for their targets."""

from jaxmatch._library import libraries


libraries.load()

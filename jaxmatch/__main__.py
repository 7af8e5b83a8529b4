"""`python -m jaxmatch` prints versions, native libraries and devices."""

from jaxmatch._show_config import show_config


show_config()

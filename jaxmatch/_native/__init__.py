"""The only room that knows `jax.ffi`: it loads the libraries and wraps each target once."""

from ._assignment import assignment as assignment
from ._assignment import fits_cuda as fits_cuda
from ._large import Buffers as Buffers
from ._large import core as core
from ._large import empty_buffers as empty_buffers
from ._large import fits_core as fits_core
from ._load import has_cpu_library as has_cpu_library
from ._load import has_cuda_library as has_cuda_library
from ._load import load
from ._noop import noop as noop


load()

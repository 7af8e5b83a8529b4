"""The only room that knows `jax.ffi`: it loads the libraries and wraps each target once."""

from ._assignment import assignment as assignment
from ._assignment import fits_cuda as fits_cuda
from ._divided import CORES as CORES
from ._divided import LISTS as LISTS
from ._divided import MAIL as MAIL
from ._divided import METRICS as METRICS
from ._divided import MOST_DEVICES as MOST_DEVICES
from ._divided import Exchanged as Exchanged
from ._divided import Kept as Kept
from ._divided import begin_divided as begin_divided
from ._divided import divided as divided
from ._flow import FLOW_CHOICES as FLOW_CHOICES
from ._flow import FLOW_METHODS as FLOW_METHODS
from ._flow import FlowBuffers as FlowBuffers
from ._flow import empty_flow_buffers as empty_flow_buffers
from ._flow import flow as flow
from ._grid_cut import grid_cut as grid_cut
from ._large import LARGE_METHODS as LARGE_METHODS
from ._large import Buffers as Buffers
from ._large import empty_buffers as empty_buffers
from ._large import fits_large as fits_large
from ._large import large as large
from ._load import has_cpu_library as has_cpu_library
from ._load import has_cuda_library as has_cuda_library
from ._load import load
from ._load import warn_without_cuda as warn_without_cuda
from ._matching import MATCHING_CHOICES as MATCHING_CHOICES
from ._matching import MATCHING_INITS as MATCHING_INITS
from ._matching import MATCHING_METHODS as MATCHING_METHODS
from ._matching import MatchingBuffers as MatchingBuffers
from ._matching import empty_matching_buffers as empty_matching_buffers
from ._matching import matching as matching
from ._noop import noop as noop
from ._perturbed import PerturbedAssignments as PerturbedAssignments
from ._perturbed import fits_perturbed as fits_perturbed
from ._perturbed import noise as noise
from ._perturbed import perturbed_assignment as perturbed_assignment
from ._perturbed import perturbed_slope as perturbed_slope
from ._points import points_assignment as points_assignment


load()

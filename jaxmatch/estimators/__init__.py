"""Gradient estimators for solutions of linear problems; they work with any solver."""

from jaxmatch.estimators._base import Estimator as Estimator
from jaxmatch.estimators._entropic import Entropic as Entropic
from jaxmatch.estimators._interpolated import AdaptiveImplicitMLE as AdaptiveImplicitMLE
from jaxmatch.estimators._interpolated import AdaptiveState as AdaptiveState
from jaxmatch.estimators._interpolated import Blackbox as Blackbox
from jaxmatch.estimators._interpolated import ImplicitMLE as ImplicitMLE
from jaxmatch.estimators._linear import Identity as Identity
from jaxmatch.estimators._linear import Perturbed as Perturbed
from jaxmatch.estimators._matrix import assignment_matrix as assignment_matrix
from jaxmatch.estimators._oracle import LinearOracle as LinearOracle
from jaxmatch.estimators._oracle import Solution as Solution
from jaxmatch.estimators._oracle import assignment_oracle as assignment_oracle
from jaxmatch.estimators._oracle import cut_oracle as cut_oracle
from jaxmatch.estimators._oracle import labelling_oracle as labelling_oracle
from jaxmatch.estimators._oracle import oracle_of as oracle_of


__all__ = [
    "AdaptiveImplicitMLE",
    "AdaptiveState",
    "Blackbox",
    "Entropic",
    "Estimator",
    "Identity",
    "ImplicitMLE",
    "LinearOracle",
    "Perturbed",
    "Solution",
    "assignment_matrix",
    "assignment_oracle",
    "cut_oracle",
    "labelling_oracle",
    "oracle_of",
]

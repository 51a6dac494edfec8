"""Solvers for kernel matrices that are read piece by piece, and what is fitted with them."""

from tangentbench.solvers.outcomes import Regression
from tangentbench.solvers.predictor import Predictor, code_labels
from tangentbench.solvers.regression import SolverOptions, regress

__all__ = ["Predictor", "Regression", "SolverOptions", "code_labels", "regress"]

"""Solvers for kernel matrices that are read piece by piece, and what is fitted with them."""

from tangentbench.solvers.predictor import Predictor, code_labels
from tangentbench.solvers.regression import Regression, SolverOptions, regress

__all__ = ["Predictor", "Regression", "SolverOptions", "code_labels", "regress"]

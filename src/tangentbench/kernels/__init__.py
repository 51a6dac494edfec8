"""Kernels of wide networks.

`cntk`, `ntk`, `layered_kernel` (of `myrtle`, `resnet50` or a list of `kernels.layers`): exact, infinitely wide.
`empirical_ntk`, `npk`: of finite networks and of their gates.
`Gram`, `certify`: matrices on disk. `regress`, `Predictor`, `code_labels`: what is fitted on them.
"""

from tangentbench.kernels.certificate import certify, read_certificate
from tangentbench.kernels.cntk import cntk
from tangentbench.kernels.empirical import empirical_ntk
from tangentbench.kernels.fully_connected import ntk
from tangentbench.kernels.layered import layered_kernel
from tangentbench.kernels.layers import myrtle, resnet50
from tangentbench.kernels.npk import neural_path_kernel as npk
from tangentbench.kernels.predictor import Predictor, code_labels
from tangentbench.kernels.regression import Regression, regress
from tangentbench.kernels.tiles import Gram

__all__ = [
    "Gram",
    "Predictor",
    "Regression",
    "certify",
    "cntk",
    "code_labels",
    "empirical_ntk",
    "layered_kernel",
    "myrtle",
    "npk",
    "ntk",
    "read_certificate",
    "regress",
    "resnet50",
]

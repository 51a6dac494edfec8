"""The bound of theorem 6.5.2 of the thesis: the test risk of a nearly linear network, computed before it is trained.

docs/nearly_linear.md says where the thesis's two statements of the theorem and its proof differ, and what we take.
"""

from tangentbench.theory.nearly_linear.bound import Bound, Proxy, bound, delta, phi, upsilon
from tangentbench.theory.nearly_linear.growth import blow_up_time, primitive, sensitivity, weight_norm
from tangentbench.theory.nearly_linear.incomplete_gamma import upper_gamma
from tangentbench.theory.nearly_linear.learning_time import (
    learning_time,
    linear_weight_norm,
    vanishing_beta_deviation,
)
from tangentbench.theory.nearly_linear.risks import (
    continuous_margin_risk,
    margin_risk,
    misclassification_risk,
    optimistic_bound,
)
from tangentbench.theory.nearly_linear.setting import (
    DERIVED,
    MENDED,
    PRINTED_CHAPTER_1,
    PRINTED_CHAPTER_6,
    OutOfRange,
    Reading,
    Setting,
    root_stable_rank,
    signal,
)

__all__ = [
    "DERIVED",
    "MENDED",
    "PRINTED_CHAPTER_1",
    "PRINTED_CHAPTER_6",
    "Bound",
    "OutOfRange",
    "Proxy",
    "Reading",
    "Setting",
    "blow_up_time",
    "bound",
    "continuous_margin_risk",
    "delta",
    "learning_time",
    "linear_weight_norm",
    "margin_risk",
    "misclassification_risk",
    "optimistic_bound",
    "phi",
    "primitive",
    "root_stable_rank",
    "sensitivity",
    "signal",
    "upper_gamma",
    "upsilon",
    "vanishing_beta_deviation",
    "weight_norm",
]

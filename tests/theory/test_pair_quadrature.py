"""Closed forms at any variances against integrals that share nothing with them, and series with their stated error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation, activation
from tangentbench.theory.pair_quadrature import integral, pair_of, quadrature_pair

RECORDS: list[Activation] = [
    *(activation(name) for name in ("identity", "hermite2", "relu", "erf", "step", "exponential", "selu", "tanh")),
    activation("leaky_relu", slope=0.3),
    *(activation("norm_relu", c=c) for c in (-1.0, 0.0, 0.5, 1.5)),
]
VARIANCES = [(0.3, 0.8, 0.3), (2.0, 0.5, -0.7), (1.0, 1.0, 1.0), (0.7, 0.7, 0.99999), (1.0, 1.0, -1.0), (0.5, 1.0, 0.0)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.label)
@pytest.mark.parametrize("pair", [pair_of, quadrature_pair])
def test_expectations_are_the_integrals(pair: Any, record: Activation) -> None:
    for first, second, rho in VARIANCES:
        sigma = rho * np.sqrt(first * second)
        k1, k0 = pair(record)(np.array([sigma]), np.array([first]), np.array([second]))
        expected = integral(record.function, record.kinks, rho, first**0.5, second**0.5)
        assert k1[0] == pytest.approx(expected, rel=1e-10, abs=1e-10)
        if record.derivative is None:
            assert k0 is None
        else:
            slopes = integral(record.derivative, record.kinks, rho, first**0.5, second**0.5)
            assert k0[0] == pytest.approx(slopes, rel=1e-10, abs=1e-10)


def test_a_bend_that_is_not_said_is_refused() -> None:
    hidden = Activation("hidden", "hidden", lambda x: np.maximum(x - 0.3, 0), derivative=lambda x: 1.0 * (x > 0.3))
    with pytest.raises(TangentbenchError, match="kinks do not say"):
        quadrature_pair(hidden)(np.array([0.5]), np.array([1.0]), np.array([1.0]))

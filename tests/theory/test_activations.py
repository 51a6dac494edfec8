"""Activations: registry, closed forms, limits of NormReLU, SeLU's constants."""

import numpy as np
import pytest

from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.theory.activations import (
    activation,
    activation_from_setting,
    known_activations,
    norm_relu_scale,
    norm_relu_shift,
    selu_constants,
)
from tangentbench.theory.duals import moments, normalised

GRID = np.linspace(-3, 3, 61)
RHO = np.linspace(-1, 1, 21)


@pytest.mark.parametrize("c", [-12.0, -4.0, -1.5975, -0.3, 0.0, 0.7, 2.0, 4.0])
def test_norm_relu_is_normalised_for_every_kink(c: float) -> None:
    found = moments(activation("norm_relu", c=c))
    assert found.mean == pytest.approx(0.0, abs=1e-10)
    assert found.second == pytest.approx(1.0, abs=1e-10)


def test_norm_relu_at_zero_is_normalised_relu() -> None:
    ours, theirs = activation("norm_relu", c=0.0), normalised(activation("relu"))
    np.testing.assert_allclose(ours(GRID), theirs(GRID), atol=1e-12)
    np.testing.assert_allclose(ours.dual(RHO), theirs.dual(RHO), atol=1e-12)  # type: ignore[misc]
    assert ours.mu == pytest.approx(theirs.mu, abs=1e-14)


def test_norm_relu_with_its_kink_far_left_is_the_identity() -> None:
    ours = activation("norm_relu", c=-8.0)
    np.testing.assert_allclose(ours(GRID), GRID, atol=1e-12)
    np.testing.assert_allclose(ours.dual(RHO), RHO, atol=1e-12)  # type: ignore[misc]
    assert ours.mu == pytest.approx(0.0, abs=1e-12)


def test_norm_relu_bends_more_the_further_right_its_kink() -> None:
    kinks = np.linspace(-4, 6, 41)
    assert np.all(np.diff([activation("norm_relu", c=c).mu for c in kinks]) > 0)
    assert np.all(np.diff([norm_relu_scale(c) for c in kinks]) > 0)
    assert activation("norm_relu", c=6.0).mu > 0.999  # type: ignore[operator]


def test_norm_relu_is_flat_left_of_its_kink_and_has_slope_lambda_right_of_it() -> None:
    c = -1.5975
    ours = activation("norm_relu", c=c)
    left, right = np.array([-5.0, c]), np.array([c, c + 2.0])
    np.testing.assert_allclose(ours(left), norm_relu_scale(c) * norm_relu_shift(c))
    assert np.diff(ours(right))[0] == pytest.approx(2.0 * norm_relu_scale(c))


def test_norm_relu_with_no_mass_right_of_its_kink_is_an_error() -> None:
    with pytest.raises(TangentbenchError, match="no variance left"):
        activation("norm_relu", c=60.0)


def test_selu_constants_are_the_published_ones() -> None:
    constants = selu_constants()
    assert constants.scale == pytest.approx(1.0507009873554804934193349852946, abs=1e-14)
    assert constants.alpha == pytest.approx(1.6732632423543772848170429916717, abs=1e-13)


def test_selu_is_normalised() -> None:
    found = moments(activation("selu"))
    assert found.mean == pytest.approx(0.0, abs=1e-10)
    assert found.second == pytest.approx(1.0, abs=1e-10)


def test_selu_does_not_overflow_on_large_inputs() -> None:
    with np.errstate(all="raise"):
        assert np.isfinite(activation("selu")(np.array([-800.0, 800.0]))).all()


def test_leaky_relu_runs_from_relu_to_identity() -> None:
    np.testing.assert_array_equal(activation("leaky_relu", slope=0.0)(GRID), activation("relu")(GRID))
    np.testing.assert_array_equal(activation("leaky_relu", slope=1.0)(GRID), GRID)
    assert activation("leaky_relu", slope=1.0).mu == pytest.approx(0.0, abs=1e-15)
    assert activation("leaky_relu", slope=0.0).mu == activation("relu").mu


def test_settings_name_activations_with_and_without_parameters() -> None:
    assert activation_from_setting("relu").name == "relu"
    assert activation_from_setting({"name": "leaky_relu", "slope": 0.3}).parameters == {"slope": 0.3}


def test_wrong_names_and_parameters_are_told() -> None:
    with pytest.raises(UnknownName, match="did you mean norm_relu"):
        activation("normrelu")
    with pytest.raises(TangentbenchError, match=r"norm_relu.*parameters are: c"):
        activation("norm_relu")
    with pytest.raises(TangentbenchError, match="relu"):
        activation("relu", slope=0.1)
    with pytest.raises(TangentbenchError, match="has no name"):
        activation_from_setting({"slope": 0.1})


def test_every_activation_of_the_paper_is_known() -> None:
    assert {"identity", "hermite2", "relu", "step", "exponential", "norm_relu", "selu"} <= set(known_activations())

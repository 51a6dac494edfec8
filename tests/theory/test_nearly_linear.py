"""Theorem 6.5.2's closed forms against their differential equations, mpmath, limits and identities."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from tangentbench.errors import UnknownName
from tangentbench.theory.nearly_linear import (
    DERIVED,
    MENDED,
    PRINTED_CHAPTER_1,
    PRINTED_CHAPTER_6,
    OutOfRange,
    Proxy,
    Reading,
    Setting,
    blow_up_time,
    bound,
    continuous_margin_risk,
    delta,
    learning_time,
    linear_weight_norm,
    margin_risk,
    misclassification_risk,
    optimistic_bound,
    phi,
    primitive,
    root_stable_rank,
    sensitivity,
    signal,
    upper_gamma,
    upsilon,
    vanishing_beta_deviation,
    weight_norm,
)

SETTINGS = [
    Setting(depth=2, epsilon=0.001, beta=0.001, rho=3.7, s=0.55),
    Setting(depth=2, epsilon=0.3, beta=0.5, rho=2.0, s=0.4),
    Setting(depth=2, epsilon=1.0, beta=0.1, rho=1.0, s=0.9),
    Setting(depth=3, epsilon=0.01, beta=0.05, rho=3.0, s=0.5),
    Setting(depth=4, epsilon=0.2, beta=0.2, rho=1.0, s=0.6),
    Setting(depth=6, epsilon=0.05, beta=0.4, rho=1.7, s=0.6),
]


def horizon(setting: Setting) -> float:
    """Where u has grown well beyond its start but v is not yet astronomic."""
    if setting.depth == 2:
        return float(np.log(1.2 / setting.beta_bar()) / setting.s_bar)
    grown = min(1.0, 3 * setting.beta_bar()) / setting.beta_bar()
    return blow_up_time(setting) * (1 - grown ** (2 - setting.depth))


def solve_growth(setting: Setting, times: np.ndarray, kept: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """u and v by numerical integration of (6.38), (D.37) and (6.40), (D.48)."""
    depth, rho, s_bar = setting.depth, setting.rho, setting.s_bar

    def slope(_: float, state: np.ndarray) -> list[float]:
        u, v = state
        drift = kept * (1 + (depth - 1) * rho) * u ** (2 * depth - 2) + s_bar * (depth - 1) * u ** (depth - 2)
        source = kept * (depth - 1) * u ** (depth - 1) * (setting.one_bar + rho * u**depth)
        return [s_bar * u ** (depth - 1), v * drift + source]

    start = [setting.beta * setting.s_bar_at(rho) / s_bar, 0.0]
    solved = solve_ivp(slope, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-15, method="DOP853")
    return solved.y[0], solved.y[1]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_u_and_v_solve_their_differential_equations(setting: Setting) -> None:
    times = np.linspace(0, horizon(setting), 20)
    u, v = solve_growth(setting, times)
    np.testing.assert_allclose(weight_norm(times, setting), u, rtol=1e-8)
    np.testing.assert_allclose(sensitivity(times, setting), v, rtol=1e-8, atol=1e-8 * v[-1])


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_v_with_the_factor_the_proof_loses_solves_its_equation(setting: Setting) -> None:
    times = np.linspace(0, horizon(setting), 20)
    _, v = solve_growth(setting, times, kept=setting.rho)
    np.testing.assert_allclose(sensitivity(times, setting, MENDED), v, rtol=1e-8, atol=1e-8 * v[-1])
    if setting.rho == 1:
        np.testing.assert_allclose(sensitivity(times, setting, MENDED), sensitivity(times, setting), rtol=1e-12)


@pytest.mark.parametrize(
    "reading",
    [
        PRINTED_CHAPTER_6,
        PRINTED_CHAPTER_1,
        Reading(w_start="beta"),
        Reading(w_factor="one_over_s_bar"),
        Reading(w_factor="one_bar_over_s_hat"),
        Reading(stable_rank="root"),
        Reading(beta_bar="power"),
    ],
    ids=str,
)
def test_no_printed_reading_solves_them(reading: Reading) -> None:
    setting = SETTINGS[1]
    times = np.linspace(0, horizon(setting), 20)
    u, v = solve_growth(setting, times)
    missed_u = np.abs(weight_norm(times, setting, reading) / u - 1).max()
    missed_v = np.abs(sensitivity(times, setting, reading) - v).max() / v[-1]
    assert max(missed_u, missed_v) > 1e-3


def test_primitive_is_the_integral_it_stands_for() -> None:
    setting = SETTINGS[3]
    depth = setting.depth
    prefactor = (depth - 1) / depth * setting.s_hat ** ((2 - depth) / depth)
    integral, _ = quad(
        lambda u: (
            (depth - 1)
            / setting.s_bar
            * np.exp(-(u**depth) / setting.s_hat)
            * (setting.one_bar * u ** (1 - depth) + setting.rho * u)
        ),
        0.1,
        0.7,
        epsabs=1e-13,
    )
    assert prefactor * (primitive(0.7, setting) - primitive(0.1, setting)) == pytest.approx(integral, rel=1e-10)


@pytest.mark.parametrize("order", [0.0, -1 / 3, -0.5, -2 / 3, -0.99, -1.0, -2.0, -2.4, 0.5, 1.0])
def test_upper_gamma_agrees_with_mpmath(order: float) -> None:
    x = np.geomspace(1e-12, 300, 60)
    exact = np.array([float(mpmath.gammainc(order, value)) for value in x])
    np.testing.assert_allclose(upper_gamma(order, x), exact, rtol=1e-11)


def test_bars_and_hats() -> None:
    setting = Setting(depth=3, epsilon=0.1, beta=0.5, rho=2.0, s=0.6)
    assert setting.one_bar == pytest.approx(1.25)
    assert setting.s_bar_at(0.0) == pytest.approx(0.9 * 0.85)
    assert setting.s_bar == pytest.approx(0.9 * 0.85 + 0.1 * 2 * 1.25)
    assert setting.s_bar_at(2.0) == pytest.approx(0.9 * 0.85 + 0.1 * 2 * 2 * 1.25)
    assert setting.s_hat == pytest.approx(3 / 5 * setting.s_bar)
    assert setting.beta_bar() == pytest.approx(0.5 * setting.s_bar_at(2.0) / setting.s_bar)
    rank_one = Setting(depth=3, epsilon=0.1, beta=0.5, rho=1.0, s=0.6)
    assert rank_one.beta_bar() == rank_one.beta_bar(PRINTED_CHAPTER_6) == 0.5


def test_upsilon_and_phi() -> None:
    assert upsilon(2, 32, 49, 60000, 0.01) == pytest.approx(np.sqrt((2 * 32 * 49 * np.log(2) + np.log(100)) / 120000))
    assert upsilon(1, 32, 49, 60000, 0.01) < upsilon(2, 32, 49, 60000, 0.01)
    assert phi(1, 2, 49, 1.0) == pytest.approx(2 * 7 + 2)
    assert phi(2, 2, 49, 1.0) == pytest.approx(4 * 7 + 4)
    assert phi(2, 3, 49, 2.0) == pytest.approx(2 * (8 * 7 + 10))


def test_the_bound_adds_up_and_starts_at_the_proxy_gap() -> None:
    setting = SETTINGS[0]
    times = np.array([0.0, 5.0, 10.0])
    parts = bound(times, setting, Proxy(2, 49, 32), samples=60000, failure_probability=0.01, gamma=1e-6)
    np.testing.assert_allclose(parts.gap, parts.upsilon + parts.deviation)
    np.testing.assert_allclose(parts.deviation, delta(2, 49, times, setting) * 1e-6 / 1e-6)
    assert parts.deviation[0] == 0.0
    assert (np.diff(parts.gap) > 0).all()


def test_after_the_blow_up_the_bound_is_infinite_and_says_so_quietly() -> None:
    setting = SETTINGS[3]
    with np.errstate(all="raise"):
        late = delta(1, 10, [0.5 * blow_up_time(setting), 2 * blow_up_time(setting)], setting)
    assert np.isfinite(late[0]) and np.isinf(late[1])


def test_linear_weight_norm_solves_its_equation() -> None:
    s, beta = 0.5, 0.01
    times = np.linspace(0, 20, 15)
    solved = solve_ivp(lambda _, u: u * (s - u**2), (0, 20), [beta], t_eval=times, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(linear_weight_norm(times, beta, s), solved.y[0], rtol=1e-7)


@pytest.mark.parametrize("depth", [2, 3, 4, 7])
def test_learning_time_is_when_the_fraction_is_reached(depth: int) -> None:
    s, beta, fraction = 0.55, 0.3, 0.9
    time = learning_time(fraction, beta, s, depth)
    solved = solve_ivp(
        lambda _, u: u ** (depth - 1) * (s - u**depth), (0, time), [beta], rtol=1e-11, atol=1e-13, method="DOP853"
    )
    assert solved.y[0, -1] ** depth / s == pytest.approx(fraction, rel=1e-8)


@pytest.mark.parametrize("reading", [DERIVED, MENDED, Reading(w_start="beta")], ids=str)
def test_the_limit_of_vanishing_beta(reading: Reading) -> None:
    s, q, r, kappa, dimension = 0.55, 10.0, 4.0, 2, 49
    beta = 1e-6
    setting = Setting(depth=2, epsilon=0.01, beta=beta, rho=3.0, s=s)
    alpha = r * beta**2 / s
    parts = bound(
        learning_time(alpha, beta, s, 2),
        setting,
        Proxy(kappa, dimension, 32),
        samples=60000,
        failure_probability=0.01,
        gamma=alpha / q,
        reading=reading,
    )
    limit = vanishing_beta_deviation(kappa, dimension, setting, q, r, reading)
    assert float(parts.deviation) == pytest.approx(limit, rel=1e-5)


def test_rank_and_signal() -> None:
    generator = np.random.default_rng(0)
    assert root_stable_rank(np.outer(generator.normal(size=5), generator.normal(size=7))) == pytest.approx(1.0)
    assert root_stable_rank(np.eye(9)) == pytest.approx(3.0)
    orthogonal, _ = np.linalg.qr(generator.normal(size=(50, 4)))
    inputs = orthogonal * np.sqrt(50)
    labels = np.sign(generator.normal(size=50))
    assert signal(inputs, labels) == pytest.approx(np.linalg.norm(labels @ np.linalg.pinv(inputs.T)))
    assert signal(inputs, labels) <= 1


def test_risks() -> None:
    labels, outputs = np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.5, -0.1, -2.0, -0.25])
    assert misclassification_risk(labels, outputs) == 0.25
    assert margin_risk(labels, outputs, 1.0) == 0.75
    assert continuous_margin_risk(labels, outputs, 1.0) == pytest.approx((0.5 + 1 + 0 + 0.75) / 4)


def test_optimistic_bound_dominates_the_test_risk_for_any_proxy() -> None:
    generator = np.random.default_rng(1)
    labels = np.sign(generator.normal(size=200)), np.sign(generator.normal(size=300))
    network = tuple(generator.normal(size=(6, len(y))) for y in labels)
    proxy = tuple(f + 0.3 * generator.normal(size=f.shape) for f in network)
    for gamma in (0.01, 0.3, 2.0):
        parts = optimistic_bound(labels, network, proxy, gamma)  # type: ignore[arg-type]
        assert (parts["bound"] >= misclassification_risk(labels[1], network[1])).all()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"depth": 1}, "depth"),
        ({"epsilon": 1.5}, "epsilon"),
        ({"beta": 0.0}, "beta"),
        ({"rho": 0.5}, "rho"),
        ({"s": 1.2}, "s"),
    ],
)
def test_numbers_out_of_range_are_named(change: dict[str, float], name: str) -> None:
    numbers = {"depth": 2, "epsilon": 0.1, "beta": 0.1, "rho": 1.0, "s": 0.5, **change}
    with pytest.raises(OutOfRange, match=f"^{name} = "):
        Setting(**numbers)  # type: ignore[arg-type]


def test_an_unknown_reading_is_named() -> None:
    with pytest.raises(UnknownName, match="reading of w_start"):
        Reading(w_start="somewhere")
    with pytest.raises(OutOfRange, match="alpha"):
        learning_time(0.9, 1.0, 0.5, 2)

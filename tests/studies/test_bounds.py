"""The bounds study on small problems: the theorem dominates what training does, and the solver is the flow."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import solve_ivp

from tangentbench.datasets import Dataset
from tangentbench.errors import InvalidConfig, TangentbenchError, UnknownName
from tangentbench.identity import WorkFolder
from tangentbench.networks import leaky_mlp
from tangentbench.networks.leaky_mlp import RegressionTask, draw, linear_velocity, outputs, task_of, velocity
from tangentbench.networks.mlp_shape import MlpShape
from tangentbench.studies.bounds.measure.assumption import projected_loss
from tangentbench.studies.bounds.measure.atlas import atlas
from tangentbench.studies.bounds.measure.curves import bound_curves, first_time_below
from tangentbench.studies.bounds.measure.optimistic import corrected, largest_epsilon, optimistic, training_phases
from tangentbench.studies.bounds.settings import Assumption, Atlas, Curves, Optimistic, Theorem
from tangentbench.studies.registry import Context
from tangentbench.studies.settings import Settings, read_settings
from tangentbench.theory.nearly_linear import (
    DERIVED,
    MENDED,
    Reading,
    Setting,
    delta,
    learning_time,
    root_stable_rank,
    sensitivity,
    weight_norm,
)
from tangentbench.theory.nearly_linear.setting import READINGS
from tangentbench.training import checkpoint
from tangentbench.training.checkpoint import Checkpoint
from tangentbench.training.engines.flow import FlowSolver, follow

S = TypeVar("S", bound=Settings)
SIDE, TRAIN, TEST = 3, 600, 2000


def toy(side: int = SIDE, train: int = TRAIN, test: int = TEST, seed: int = 0) -> Dataset:
    """Two noisy classes in side^2 dimensions, whitened on the training part."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(train + test, side * side)) @ generator.normal(size=(side * side, side * side))
    labels = (x[:, 0] + 0.5 * np.abs(x[:, 1]) + generator.normal(size=len(x)) > 0.3).astype(np.int64)
    values, vectors = np.linalg.eigh(x[:train].T @ x[:train] / train)
    x = (x @ vectors / np.sqrt(values)).astype(np.float32)
    return Dataset(f"toy_{side}x{side}", x[:train], labels[:train], x[train:], labels[train:], ("no", "yes"))


def context() -> Context:
    return Context(seed=0, datasets={"toy_3x3": toy()})


COMMON: dict[str, Any] = {
    "samples": TRAIN,
    "betas": [0.01],
    "epsilons": [0.01],
    "input_layers": ["full_rank"],
    "width": 16,
    "runs": 1,
    "times": {"end_in_learning_times": 1.2, "learnt_fraction": 0.9, "first_share": 0.01, "points": 25},
    "solver": {"method": "adaptive", "learning_rate": 0.001, "tolerance": 1e-5},
}
ONE_CASE: dict[str, Any] = {**COMMON, "side": SIDE, "depth": 2}
CURVES: dict[str, Any] = {
    **COMMON, "sides": [SIDE], "depths": [2], "kappas": [1, 2], "precisions": [16], "qs": [1, 10],
    "failure_probability": 0.01, "theorem": {},
}  # fmt: skip
ATLAS: dict[str, Any] = {
    "depth": 2, "dimension": 49, "beta": 1e-4, "rho": 1.0, "s": 0.6, "failure_probability": 0.01, "kappas": [1, 2],
    "precisions": [16, 32], "qs": [1, 10], "clearance": 50.0, "epsilon_range": [1e-5, 0.1],
    "ratio_range": [1e-5, 0.1], "points": 7,
}  # fmt: skip


def curve_settings(**changes: Any) -> Curves:
    return read(Curves, {**CURVES, **changes})


def read(record: type[S], raw: dict[str, Any]) -> S:
    return read_settings(record, raw, "catalogue.yaml", "artifacts.x.settings")


def double(task: RegressionTask) -> RegressionTask:
    tensors = (task.x_train, task.y_train, task.x_test, task.y_test)
    return RegressionTask(*(one.to(torch.float64) for one in tensors), task.correlation, task.moment)  # type: ignore[arg-type, call-arg]


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("input_layer", ["full_rank", "rank_one"])
@pytest.mark.parametrize("epsilon", [0.02, 0.3])
def test_delta_dominates_the_measured_deviation_and_u_the_weights(depth: int, input_layer: str, epsilon: float) -> None:
    task, shape, beta = double(task_of(toy())), MlpShape(depth, 16, SIDE * SIDE), 0.1
    start = draw(shape, beta, input_layer, (0, 1))[None]
    rho = max(root_stable_rank(shape.split(start)[0][0]), 1.0)
    setting = Setting(depth, epsilon, beta, rho, task.s)
    times = np.linspace(0, learning_time(0.5, beta, task.s, depth), 6)
    eps = np.array([epsilon])
    solver = FlowSolver(tolerance=1e-5)
    own = follow(lambda w, _: velocity(shape, w, eps, task), start, times, solver, label="network").weights[:, 0]
    plain = follow(
        lambda w, _: linear_velocity(shape, w, task.correlation, task.moment), start, times, solver, label="linear"
    ).weights[:, 0]
    every = np.full(len(times), epsilon)
    f = [outputs(shape, own, every, x) for x in (task.x_train, task.x_test)]
    first = outputs(shape, plain, every, task.x_train), outputs(shape, plain, every, task.x_test)
    for kappa, proxy in ((1, first), (2, corrected(f[0], first, task))):
        measured = sum(np.abs(a - b).mean(axis=1) for a, b in zip(f, proxy, strict=True))
        allowed = delta(kappa, task.rank, times, setting) * epsilon**kappa
        assert (measured <= allowed + 1e-12).all()
        assert measured[-1] > 0
    norms = np.max([np.linalg.norm(layer, 2, axis=(1, 2)) for layer in shape.split(own)], axis=0)
    assert (norms <= weight_norm(times, setting) * (1 + 1e-9)).all()


def test_lemma_6_7_1_as_printed_fails_where_labels_lean_to_one_side_and_its_mended_form_holds() -> None:
    """(D.21) loses the factor rho of (D.20): with all labels alike the last layer's derivative is larger than v."""
    generator = np.random.default_rng(3)
    samples, dimension, beta = 2000, 49, 0.01
    x = generator.normal(size=(samples, dimension))
    values, vectors = np.linalg.eigh(x.T @ x / samples)
    x = x @ vectors / np.sqrt(values)
    y = -np.ones(samples)
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    task = RegressionTask(*tensors, *tensors, y @ x / samples, x.T @ x / samples)
    shape = MlpShape(2, 64, dimension)
    start = draw(shape, beta, "full_rank", (0,))[None]
    rho = root_stable_rank(shape.split(start)[0][0])
    times, small = np.array([0.0, 0.5, 1.0]), 1e-4

    def end(epsilon: float) -> np.ndarray:
        eps, solver = np.array([epsilon]), FlowSolver(tolerance=1e-9)
        return follow(lambda w, _: velocity(shape, w, eps, task), start, times, solver, label="").weights[1:, 0]

    last = np.linalg.norm(shape.split((end(small) - end(0.0)) / small)[-1], axis=(1, 2))
    setting = Setting(2, small, beta, rho, max(task.s, 1e-6))
    assert rho > 2.5
    assert (last > 1.2 * sensitivity(times[1:], setting, DERIVED)).all()
    assert (last <= sensitivity(times[1:], setting, MENDED)).all()


def test_the_adaptive_solver_is_the_flow_that_steps_of_0_001_approximate() -> None:
    task, shape, epsilon = double(task_of(toy())), MlpShape(2, 16, SIDE * SIDE), np.array([0.1])
    start = draw(shape, 0.1, "full_rank", (0, 0))[None]
    times = np.array([0.0, 1.0, 4.0])

    def slope(w: np.ndarray, _: np.ndarray) -> np.ndarray:
        return velocity(shape, w, epsilon, task)

    # every example's kink costs a solver steps at a tight tolerance; DOP853 at 1e-6 is our reference
    exact = solve_ivp(
        lambda _, w: slope(w[None], np.arange(1))[0], (0, 4), start[0], "DOP853", times, rtol=1e-6, atol=1e-9
    ).y.T
    scale = np.linalg.norm(exact, axis=1)
    adaptive = follow(slope, start, times, FlowSolver(tolerance=1e-5), label="").weights[:, 0]
    steps = follow(slope, start, times, FlowSolver("descent", step=0.001), label="").weights[:, 0]
    missed = [np.linalg.norm(one - exact, axis=1) / scale for one in (adaptive, steps)]
    assert missed[0].max() < 3e-4
    assert missed[1].max() < 3e-3
    assert missed[0].max() < missed[1].max()


def test_the_bound_dominates_the_test_risk_at_every_time() -> None:
    table = bound_curves(context(), curve_settings(betas=[0.5, 0.01], input_layers=["full_rank", "rank_one"]))
    assert (table["excess"] >= 0).all()
    assert (table["weight_norm"] <= table["weight_bound"] * (1 + 1e-6)).all()
    np.testing.assert_allclose(table["bound"], table["margin_risk"] + table["upsilon"] + table["deviation"])
    assert (table["deviation_mended"] >= table["deviation"] * (1 - 1e-12)).all()
    assert (table["margin_risk"] >= table["train_risk"]).all()
    rank_one = table[table["input_layer"] == "rank_one"]
    np.testing.assert_allclose(rank_one["deviation_mended"], rank_one["deviation"])
    curves = table.groupby(["beta", "input_layer", "kappa"])
    assert (curves["best"].sum() == 1).all()
    assert (curves["bound"].min() == curves["best_bound"].first()).all()


def test_a_batch_of_curves_gives_what_each_alone_gives() -> None:
    both = bound_curves(context(), curve_settings(epsilons=[0.01, 0.5]))
    alone = bound_curves(context(), curve_settings(epsilons=[0.5]))
    picked = both[both["epsilon"] == 0.5].reset_index(drop=True)
    np.testing.assert_allclose(picked["weight_norm"], alone["weight_norm"], rtol=1e-9)


def test_a_killed_study_goes_on_and_gives_the_same_table(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bound_curves(context(), curve_settings())
    monkeypatch.setattr(checkpoint, "Checkpoint", partial(Checkpoint, every_seconds=0.0))
    calls, real = 0, leaky_mlp.velocity

    def dies(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 60:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(leaky_mlp, "velocity", dies)
    working = Context(seed=0, datasets={"toy_3x3": toy()}, work=WorkFolder(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        bound_curves(working, curve_settings())
    pd.testing.assert_frame_equal(bound_curves(working, curve_settings()), whole)


def test_projected_loss_never_grows() -> None:
    changes = {"betas": [1.0, 0.01], "epsilons": [0.01, 1.0], "shown_offset": 1e-8}
    table = projected_loss(context(), read(Assumption, {**ONE_CASE, **changes}))
    assert (table["projected_fall"] >= 0).all() and (table["loss_fall"] >= 0).all()
    assert (table["projected_loss"] <= table["loss"] * (1 + 1e-5)).all()
    assert len(table) == 4 * COMMON["times"]["points"]


def test_optimistic_bound_dominates_and_second_order_is_nearest() -> None:
    settings = read(
        Optimistic,
        {
            **ONE_CASE,
            "epsilons": [0.1],
            "gammas": [1e-3, 0.1],
            "proxies": ["kappa_1", "kappa_2", "linear"],
            "phase_margin": 0.02,
            "late_phase_margin": 0.05,
        },
    )
    table = optimistic(context(), settings)
    assert (table["bound"] >= table["test_risk"] - 1e-12).all()
    first = table[(table["phase"] <= 1) & (table["proxy"] == "kappa_2")]
    assert len(first) and (first["nearest"] == 1).all()


def test_phases_follow_the_loss() -> None:
    loss = np.array([0.5, 0.5, 0.4, 0.3, 0.21, 0.2, 0.19])
    risk = np.array([0.5, 0.4, 0.2, 0.1, 0.1, 0.1, 0.05])
    assert training_phases(loss, risk, 0.2, 0.1, 0.02).tolist() == [0, 0, 1, 2, 2, 2, 3]


def test_the_largest_epsilon_ends_before_the_first_that_fails() -> None:
    bounds = {0.1: (0.3, 0.4), 0.2: (0.4, 0.6), 0.3: (0.4, 0.4)}
    rows = [
        {"seed": 0, "beta": 0.1, "proxy": "kappa_2", "epsilon": epsilon, "phase": phase, "best_bound": value}
        for epsilon, values in bounds.items()
        for phase, value in ((1, values[0]), (2, values[0]), (2, values[1]))
    ]
    table = pd.DataFrame(rows)
    assert set(largest_epsilon(table, "max")) == {0.1}
    assert set(largest_epsilon(table, "min")) == {0.3}
    late = table.assign(late_phase=np.where(table["best_bound"] == 0.6, 3, table["phase"]))
    assert set(largest_epsilon(late, "max", "late_phase")) == {0.3}


def test_time_to_learn_is_interpolated() -> None:
    times, risk = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.5, 0.4, 0.12, 0.1])
    assert first_time_below(times, risk) == pytest.approx(2.5)
    assert first_time_below(times, np.full(4, 0.1)) == 0.0


def test_the_atlas_gives_more_room_to_weaker_nonlinearities_and_more_examples() -> None:
    table = atlas(context(), read(Atlas, ATLAS))
    for _, own in table.groupby(["kappa", "precision"]):
        room = own.pivot(index="ratio", columns="epsilon", values="room").to_numpy()
        assert (np.diff(room, axis=0) < 0).all() and (np.diff(room, axis=1) < 0).all()
    assert np.allclose(table["room"], 0.5 - table["upsilon"] - table["deviation"])


def test_wrong_sizes_are_explained() -> None:
    with pytest.raises(TangentbenchError, match="`samples` says 7"):
        bound_curves(context(), curve_settings(samples=7))
    with pytest.raises(UnknownName, match="image side"):
        bound_curves(context(), curve_settings(sides=[28]))


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"epsilons": [1.5]}, "epsilons\\[0\\]", "<= 1.0"),
        ({"depths": [1]}, "depths\\[0\\]", ">= 2"),
        ({"kappas": [3]}, "kappas\\[0\\]", "3 is not known here \\(allowed: 1, 2\\)"),
        ({"input_layers": ["rank_two"]}, "input_layers\\[0\\]", "'rank_two' is not known here"),
        ({"solver": {**COMMON["solver"], "method": "euler"}}, "solver.method", "allowed: adaptive, descent"),
        ({"theorem": {"w_start": "zero"}}, "theorem.w_start", "allowed: beta, beta_bar"),
        ({"theorem": {"beta": 1}}, "theorem", "unknown setting beta "),
        ({"failure_probability": 0}, "failure_probability", "> 0"),
        ({"delta": 0.01}, "settings", "unknown setting delta"),
    ],
)
def test_wrong_settings_are_said_with_file_and_key(changes: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"catalogue\.yaml.*{key}.*{reason}"):
        curve_settings(**changes)


def test_a_range_begins_with_its_smaller_end() -> None:
    with pytest.raises(InvalidConfig, match=r"catalogue\.yaml.*settings.ratio_range.*smaller one first"):
        read(Atlas, {**ATLAS, "ratio_range": [0.1, 1e-5]})


def test_the_settings_know_every_reading_of_the_theorem() -> None:
    allowed = {name: set(get_args(kind)) for name, kind in get_type_hints(Theorem).items()}
    assert allowed == {name: set(values) for name, values in READINGS.items()}
    assert Reading(**msgspec.structs.asdict(Theorem())) == Reading()

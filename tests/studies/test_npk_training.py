"""The trained artifacts of the neural-path-kernel study, at sizes of seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.studies.npk.measure.accuracy import accuracies, chosen_steps
from tangentbench.studies.npk.measure.alignment import label_alignment
from tangentbench.studies.npk.measure.decoupled import value_and_feature_kernels
from tangentbench.studies.npk.measure.flips import flipping_gates
from tangentbench.studies.npk.measure.modes import chosen_epoch
from tangentbench.studies.npk.measure.stages import exact_kernel, gates_of_stages
from tangentbench.studies.npk.measure.theorem import frozen_gates
from tangentbench.studies.registry import Context


def images(side: int, channels: int, classes: int, each: int = 20) -> Dataset:
    """Blurred class means with noise: easy to tell apart."""
    rng = np.random.default_rng(side + channels)
    means = rng.random((classes, side, side, channels))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(np.arange(classes), count)
        noise = 0.2 * rng.random((len(labels), side, side, channels))
        return (0.8 * means[labels] + noise).astype(np.float32), labels.astype(np.int64)

    names = tuple(str(label) for label in range(classes))
    return Dataset(f"images{channels}", *draw(each), *draw(each // 2), names)


GREY, COLOUR, TWO = images(6, 1, 3), images(8, 3, 3), images(6, 1, 2)

TABLE2: dict[str, Any] = {
    "columns": ["frnpf_ii", "frnpf_di", "dnpfl", "flnpf", "relu"],
    "fc_width": 12,
    "fc_depth": 3,
    "conv_kernel": 3,
    "conv_stride": 2,
    "conv_padding": "same",
    "conv_channels": [4, 4],
    "dense_units": [8],
    "initialisation": "glorot_uniform",
    "biases": True,
    "soft_gate_beta": 8.0,
    "soft_gate_height": 1.0,
    "batch_size": 16,
    "sgd_steps": [0.1, 1e-6],
    "validation_images": {},
    "adam_step_cnn": 1e-2,
    "adam_step_fc": 1e-2,
    "flnpf_checkpoint": "best_test",
    "stop_at_train_accuracy": 0.999,
    "runs": {"fc": 2, "conv": 2},
    "epochs": {"fc": 6, "conv": 2},
    "train_images": {"images1": 48},
    "test_images": {},
}


def table2(rows: list[str], **changes: Any) -> pd.DataFrame:
    context = Context(seed=0, datasets={"images1": GREY, "images3": COLOUR})
    return accuracies(context, rows=rows, **{**TABLE2, **changes})


def test_table2_has_every_cell_and_chooses_the_better_step() -> None:
    table = table2(["fc_sgd"])
    best = table[table["quantity"] == "best test accuracy"]
    assert len(best) == 5 * 2 and set(best["step_size"]) == {0.1}
    assert set(table[table["quantity"] == "tried best test accuracy"]["step_size"]) == {0.1, 1e-6}
    last = table[table["quantity"] == "last test accuracy"].set_index(["column", "seed"])["value"]
    assert (best.set_index(["column", "seed"])["value"] >= last).all()
    cells = best.pivot(index="seed", columns="column", values="value")
    advantage = table[(table["quantity"] == "advantage") & (table["column"] == "relu over flnpf")].set_index("seed")
    np.testing.assert_allclose(advantage["value"], cells["relu"] - cells["flnpf"])


@pytest.mark.parametrize("row", ["vconv_adam", "gconv_adam"])
def test_table2_trains_convolutions(row: str) -> None:
    values = table2([row])
    assert values[values["quantity"] == "best test accuracy"]["value"].between(0, 100).all()


def test_table2_has_a_protocol_that_no_test_image_chooses() -> None:
    both = table2(["fc_sgd"], validation_images={"images1": 12}, columns=["flnpf", "relu"])
    validated = both[both["quantity"] == "validated test accuracy"]
    assert len(validated) == 2 * 2 and set(validated["step_size"]) == {0.1}
    printed = table2(["fc_sgd"], columns=["flnpf", "relu"])
    rest = both[both["quantity"] != "validated test accuracy"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, printed)
    with pytest.raises(TangentbenchError, match="48 of 48 training images"):
        table2(["fc_sgd"], validation_images={"images1": 48})
    with pytest.raises(UnknownName, match="row of Table 2"):
        table2(["fc_sdg"])


def test_the_epoch_is_chosen_on_the_other_set() -> None:
    history = pd.DataFrame(
        {
            "run": [0, 0, 0, 1],
            "epoch": [1, 2, 3, 1],
            "validation_accuracy": [0.5, 0.7, 0.7, 0.9],
            "test_accuracy": [0.9, 0.6, 0.8, 0.1],
        }
    )
    assert chosen_epoch(history, 0, "validation", "test") == pytest.approx(60.0)


def test_steps_are_chosen_by_their_mean() -> None:
    table = pd.DataFrame({"column": "a", "step_size": [1.0, 1.0, 2.0, 2.0], "test best": [90.0, 10.0, 60.0, 60.0]})
    assert chosen_steps(table, "test best") == {"a": 2.0}


def exact_accuracies(**columns: list[float]) -> pd.DataFrame:
    """A table like that of cntk_table1: for each column its accuracies at depths 3, 4, ..."""
    rows = [
        {"column": column, "depth": 3 + place, "seed": 0, "value": value, "train_images": 50}
        for column, values in columns.items()
        for place, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_the_exact_kernel_is_that_of_the_best_depth_on_most_images() -> None:
    table = exact_accuracies(cntk_v=[90.0], cntk_gap_2k=[60.0, 64.0, 62.0], cntk_gap=[70.0, 69.0])
    assert exact_kernel(table)["value"].tolist() == [70.0]
    assert exact_kernel(table[table["column"] != "cntk_gap"])["value"].tolist() == [64.0]
    assert exact_kernel(exact_accuracies(cntk_v=[90.0])).empty


def test_stages_are_as_many_as_checkpoints() -> None:
    table = gates_of_stages(
        Context(seed=0, datasets={"c": COLOUR}, tables={"cntk_table1": exact_accuracies(cntk_gap=[50.0])}),
        architecture="gconv",
        optimiser="adam",
        step=1e-2,
        batch_size=16,
        checkpoint_epochs=[1, 3],
        conv_kernel=3,
        conv_stride=1,
        conv_channels=[4],
        dense_units=[8],
        runs=2,
        epochs=2,
        train_images=30,
        test_images=30,
    )
    copied = table[(table["network"] == "FLNPF") & (table["quantity"] == "best test accuracy")]
    assert sorted(zip(copied["stage"], copied["epoch"], strict=True)) == [(1, 1), (1, 1), (2, 3), (2, 3)]
    assert set(table["network"]) == {"ReLU", "FLNPF", "FRNPF", "CNTK"}
    assert table[table["network"] == "CNTK"]["images"].tolist() == [50, 50]


def test_label_fit_starts_at_one_and_keeps_its_bound() -> None:
    """With trace one no eigenvalue exceeds one, so nu = y^T H^-1 y is at least y^T y, the number of images."""
    table = label_alignment(
        Context(seed=0, datasets={"two": TWO}),
        width=20,
        depth=3,
        initialisation="bernoulli",
        biases=False,
        optimiser="rmsprop",
        step=2e-3,
        batch_size=8,
        loss="squared",
        kernel_images=10,
        ridge=0.0,
        train_images=40,
        runs=2,
        epochs=10,
        probe_every_epochs=5,
    )
    ratios = table[table["quantity"] == "nu over start"].pivot(index="seed", columns="epoch", values="value")
    assert ratios.columns.tolist() == [0, 5, 10] and (ratios[0] == 1).all() and (ratios[10] != 1).all()
    assert (table[table["quantity"] == "nu"]["value"] >= 10).all()


def test_kernels_of_values_and_features_are_measured_at_every_probe() -> None:
    table = value_and_feature_kernels(
        Context(seed=0, datasets={"grey": GREY}),
        width=8,
        depth=3,
        soft_gate_beta=8.0,
        soft_gate_height=1.0,
        optimiser="adam",
        step=1e-3,
        batch_size=16,
        kernel_images_a_class=2,
        outputs="sum",
        train_images=60,
        runs=2,
        epochs=2,
        probe_every_epochs=2,
    )
    sizes = table[table["quantity"] == "trace"].pivot(index=["seed", "epoch"], columns="kernel", values="value")
    apart = table[table["quantity"] == "trace apart"].set_index(["seed", "epoch"])["value"]
    np.testing.assert_allclose(np.abs(np.log10(sizes["K^F"] / sizes["K^V"])), apart)
    assert len(apart) == 2 * 2


def test_flips_begin_at_nothing_and_stay_shares() -> None:
    settings: dict[str, Any] = {
        "width": 10,
        "depth": 4,
        "soft_gate_beta": 8.0,
        "soft_gate_height": 1.0,
        "optimiser": "adam",
        "batch_size": 16,
        "gate_images_a_class": 4,
        "train_images": 60,
        "runs": 2,
        "epochs": 3,
    }
    context = Context(seed=0, datasets={"grey": GREY})
    still = flipping_gates(context, modes=["relu", "dnpfl"], step=0.0, **settings)
    assert (still[still["quantity"].str.startswith("flipped")]["value"] == 0).all()
    moving = flipping_gates(context, modes=["relu", "dnpfl"], step=0.01, **settings)
    since = moving[moving["quantity"] == "flipped since start"]
    assert since["value"].between(0, 100).all() and since["value"].max() > 0
    first = moving[moving["epoch"] == 1].pivot_table(
        index=["mode", "seed", "layer"], columns="quantity", values="value"
    )
    np.testing.assert_array_equal(first["flipped since start"], first["flipped in the epoch"])


def test_theorem_table_shows_the_rates() -> None:
    table = frozen_gates(
        Context(seed=0, datasets={"grey": GREY}),
        sigma_squared_times_width=2.0,
        depths=[3],
        widths=[16, 128],
        images=6,
        gates="random_relu",
        padded_gate_width=8,
        paddings=[1, 16],
        runs=40,
    )
    error = table[table["quantity"] == "relative error"].groupby(["varied", "axis"])["value"].mean()
    for varied, low, high in (("width", 16, 128), ("padding", 1, 16)):
        rate = np.log(error[varied, high] / error[varied, low]) / np.log(high / low)
        assert -0.65 < rate < -0.35
    assert table[table["quantity"] == "projection"]["value"].mean() == pytest.approx(1.0, abs=0.1)

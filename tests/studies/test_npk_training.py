"""The trained artifacts of the neural-path-kernel study, at sizes of seconds."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError
from tangentbench.studies.npk.measure.accuracy import accuracies, chosen_learning_rates
from tangentbench.studies.npk.measure.alignment import label_alignment
from tangentbench.studies.npk.measure.decoupled import value_and_feature_kernels
from tangentbench.studies.npk.measure.flips import flipping_gates
from tangentbench.studies.npk.measure.modes import chosen_epoch
from tangentbench.studies.npk.measure.stages import exact_kernel, gates_of_stages
from tangentbench.studies.npk.measure.theorem import frozen_gates
from tangentbench.studies.npk.settings import (
    DecoupledKernels,
    FlippingGates,
    FrozenGates,
    GateTable,
    LabelAlignment,
    Stages,
)
from tangentbench.studies.registry import Context
from tangentbench.studies.settings import Settings, read_settings


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

NETWORKS: dict[str, Any] = {
    "fc": {"width": 12, "depth": 3},
    "conv": {"kernel": 3, "stride": 2, "padding": "same", "channels": [4, 4], "dense_units": [8]},
}
IMAGES = {"train_images": 48, "test_images": 30, "validation_images": 0}
TABLE2: dict[str, Any] = {
    "columns": ["frnpf_ii", "frnpf_di", "dnpfl", "flnpf", "relu"],
    "fc": {"network": NETWORKS["fc"], "adam_learning_rate": 1e-2, "runs": 2, "epochs": 6, **IMAGES},
    "conv": {"network": NETWORKS["conv"], "adam_learning_rate": 1e-2, "runs": 2, "epochs": 2, **IMAGES},
    "initialisation": "glorot_uniform",
    "biases": True,
    "soft_gate": {"beta": 8.0, "height": 1.0},
    "batch_size": 16,
    "sgd_learning_rates": [0.1, 1e-6],
    "flnpf_checkpoint": "best_test",
    "stop_at_train_accuracy": 0.999,
}
R = TypeVar("R", bound=Settings)


def made(record: type[R], raw: dict[str, Any]) -> R:
    return read_settings(record, raw, "catalogue.yaml", "settings")


def table2(rows: list[str], held_out: int = 0, **changes: Any) -> pd.DataFrame:
    context = Context(seed=0, datasets={"images1": GREY, "images3": COLOUR})
    fc = {**TABLE2["fc"], "validation_images": held_out}
    return accuracies(context, made(GateTable, {**TABLE2, "rows": rows, "fc": fc, **changes}))


def test_table2_has_every_cell_and_chooses_the_better_learning_rate() -> None:
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
    both = table2(["fc_sgd"], held_out=12, columns=["flnpf", "relu"])
    validated = both[both["quantity"] == "validated test accuracy"]
    assert len(validated) == 2 * 2 and set(validated["step_size"]) == {0.1}
    printed = table2(["fc_sgd"], columns=["flnpf", "relu"])
    rest = both[both["quantity"] != "validated test accuracy"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, printed)
    with pytest.raises(TangentbenchError, match="48 of 48 training images"):
        table2(["fc_sgd"], held_out=48)


def test_a_row_without_its_data_set_is_named() -> None:
    settings = made(GateTable, {**TABLE2, "rows": ["vconv_adam"]})
    with pytest.raises(TangentbenchError, match=r"vconv_adam needs images with 3 channel.*catalogue.yaml"):
        accuracies(Context(seed=0, datasets={"images1": GREY}), settings)


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


def test_learning_rates_are_chosen_by_their_mean() -> None:
    table = pd.DataFrame({"column": "a", "step_size": [1.0, 1.0, 2.0, 2.0], "test best": [90.0, 10.0, 60.0, 60.0]})
    assert chosen_learning_rates(table, "test best") == {"a": 2.0}


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
    settings = {
        "architecture": "gconv",
        "network": {"kernel": 3, "stride": 1, "padding": "same", "channels": [4], "dense_units": [8]},
        "training": {"optimiser": "adam", "learning_rate": 1e-2, "batch_size": 16, "runs": 2, "epochs": 2},
        "checkpoint_epochs": [1, 3],
        "train_images": 30,
        "test_images": 30,
    }
    tables = {"cntk_table1": exact_accuracies(cntk_gap=[50.0])}
    table = gates_of_stages(Context(seed=0, datasets={"c": COLOUR}, tables=tables), made(Stages, settings))
    copied = table[(table["network"] == "FLNPF") & (table["quantity"] == "best test accuracy")]
    assert sorted(zip(copied["stage"], copied["epoch"], strict=True)) == [(1, 1), (1, 1), (2, 3), (2, 3)]
    assert set(table["network"]) == {"ReLU", "FLNPF", "FRNPF", "CNTK"}
    assert table[table["network"] == "CNTK"]["images"].tolist() == [50, 50]


def test_label_fit_starts_at_one_and_keeps_its_bound() -> None:
    """With trace one no eigenvalue exceeds one, so nu = y^T H^-1 y is at least y^T y, the number of images."""
    training = {"optimiser": "rmsprop", "learning_rate": 2e-3, "batch_size": 8, "loss": "squared"}
    settings = {
        "network": {"width": 20, "depth": 3},
        "initialisation": "bernoulli",
        "biases": False,
        "training": {**training, "runs": 2, "epochs": 10},
        "kernel_images": 10,
        "ridge": 0.0,
        "train_images": 40,
        "probe_every_epochs": 5,
    }
    table = label_alignment(Context(seed=0, datasets={"two": TWO}), made(LabelAlignment, settings))
    ratios = table[table["quantity"] == "nu over start"].pivot(index="seed", columns="epoch", values="value")
    assert ratios.columns.tolist() == [0, 5, 10] and (ratios[0] == 1).all() and (ratios[10] != 1).all()  # type: ignore[comparison-overlap]
    assert (table[table["quantity"] == "nu"]["value"] >= 10).all()


def test_kernels_of_values_and_features_are_measured_at_every_probe() -> None:
    settings = {
        "network": {"width": 8, "depth": 3},
        "soft_gate": {"beta": 8.0, "height": 1.0},
        "training": {"optimiser": "adam", "learning_rate": 1e-3, "batch_size": 16, "runs": 2, "epochs": 2},
        "kernel_images_per_class": 2,
        "outputs": "sum",
        "train_images": 60,
        "probe_every_epochs": 2,
    }
    table = value_and_feature_kernels(Context(seed=0, datasets={"grey": GREY}), made(DecoupledKernels, settings))
    sizes = table[table["quantity"] == "trace"].pivot(index=["seed", "epoch"], columns="kernel", values="value")
    apart = table[table["quantity"] == "trace apart"].set_index(["seed", "epoch"])["value"]
    np.testing.assert_allclose(np.abs(np.log10(sizes["K^F"] / sizes["K^V"])), apart)
    assert len(apart) == 2 * 2


def test_flips_begin_at_nothing_and_stay_shares() -> None:
    def flips(learning_rate: float) -> pd.DataFrame:
        training = {"optimiser": "adam", "learning_rate": learning_rate, "batch_size": 16, "runs": 2, "epochs": 3}
        settings = {
            "modes": ["relu", "dnpfl"],
            "network": {"width": 10, "depth": 4},
            "soft_gate": {"beta": 8.0, "height": 1.0},
            "training": training,
            "gate_images_per_class": 4,
            "train_images": 60,
        }
        return flipping_gates(Context(seed=0, datasets={"grey": GREY}), made(FlippingGates, settings))

    still = flips(0.0)
    assert (still[still["quantity"].str.startswith("flipped")]["value"] == 0).all()
    moving = flips(0.01)
    since = moving[moving["quantity"] == "flipped since start"]
    assert since["value"].between(0, 100).all() and since["value"].max() > 0
    first = moving[moving["epoch"] == 1].pivot_table(
        index=["mode", "seed", "layer"], columns="quantity", values="value"
    )
    np.testing.assert_array_equal(first["flipped since start"], first["flipped in the epoch"])


def test_theorem_table_shows_the_rates() -> None:
    settings = {
        "sigma_squared_times_width": 2.0,
        "depths": [3],
        "widths": [16, 128],
        "images": 6,
        "gates": "random_relu",
        "padded_gate_width": 8,
        "paddings": [1, 16],
        "runs": 40,
    }
    table = frozen_gates(Context(seed=0, datasets={"grey": GREY}), made(FrozenGates, settings))
    error = table[table["quantity"] == "relative error"].groupby(["varied", "axis"])["value"].mean()
    for varied, low, high in (("width", 16, 128), ("padding", 1, 16)):
        rate = np.log(error[varied, high] / error[varied, low]) / np.log(high / low)
        assert -0.65 < rate < -0.35
    assert table[table["quantity"] == "projection"]["value"].mean() == pytest.approx(1.0, abs=0.1)

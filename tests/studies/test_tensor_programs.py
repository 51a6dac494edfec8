"""The study of non-Gaussian weights at a size that runs in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tangentbench.datasets import Dataset
from tangentbench.errors import InvalidConfig, TangentbenchError
from tangentbench.identity import WorkFolder
from tangentbench.networks.weight_distributions import DISTRIBUTIONS
from tangentbench.paths import Paths, find_root
from tangentbench.studies.registry import Context, figure_function, study_function
from tangentbench.studies.settings import Settings, read_settings
from tangentbench.studies.tensor_programs.costs import one_hidden_layer as training_work
from tangentbench.studies.tensor_programs.costs import state_kernels
from tangentbench.studies.tensor_programs.costs import two_hidden_layers as deeper_work
from tangentbench.studies.tensor_programs.measure import ensembles, kernels
from tangentbench.studies.tensor_programs.measure.ensembles import (
    one_hidden_layer,
    readout_norms,
    settling,
    two_hidden_layers,
)
from tangentbench.studies.tensor_programs.measure.kernels import output_kernels, tangent_kernel_distances
from tangentbench.studies.tensor_programs.measure.swapping import chunks
from tangentbench.studies.tensor_programs.measure.words import sentences_as_sequences
from tangentbench.studies.tensor_programs.settings import (
    Distribution,
    OneHiddenLayer,
    ReadoutNorms,
    StateKernels,
    TangentKernels,
    TwoHiddenLayers,
)
from tangentbench.suite.catalogue import load_catalogue

S = TypeVar("S", bound=Settings)
NAMES = [f"tensor_programs_figA_{number}" for number in range(1, 8)]
SENTENCES = ["The fox jumps", "the quick fox jumps"]
KERNELS: dict[str, Any] = {
    "swapped": "all",
    "truncation_sigmas": 2.0,
    "widths": [16, 64],
    "inits": 12,
    "limit": {"log2_points": 8, "scramblings": 4},
}
STATES: dict[str, Any] = {
    **KERNELS,
    "architectures": ["gru", "transformer"],
    "distributions": ["gaussian", "uniform", "cubecauchy"],
    "sentences": SENTENCES,
    "embedding": "random",
    "embedding_dimension": 12,
    "transformer_depth": 2,
}
TANGENTS: dict[str, Any] = {
    **KERNELS,
    "architectures": ["rnn", "transformer"],
    "distributions": ["gaussian", "truncated_gaussian"],
    "pixels": 4,
    "image_indices": [0, 2],
}
TRAINING: dict[str, Any] = {
    "parametrisation": "maximal_update",
    "activation": "relu",
    "learning_rate": 0.3,
    "momentum": 0.9,
    "batch_size_max": 100,
    "epochs_shown": [1, 20],
}
SHALLOW: dict[str, Any] = {
    "distributions": ["gaussian_again", "uniform", "exponential"],
    "quantities": ["train_loss", "readout_norm"],
    "images": 6,
    "widths": [8, 32],
    "inits": 80,
    "training": TRAINING,
    "limit": {"width": 512, "runs": 4},
}
DEEPER: dict[str, Any] = {
    **{name: value for name, value in SHALLOW.items() if name != "limit"},
    "distributions": ["gaussian_again", "exponential"],
    "swapped": ["all", "matrices"],
    "quantities": ["train_loss"],
}


def read(record: type[S], raw: dict[str, Any]) -> S:
    return read_settings(record, raw, "catalogue.yaml", "artifacts.x.settings")


def states(**changes: Any) -> StateKernels:
    return read(StateKernels, {**STATES, **changes})


def shallow(**changes: Any) -> OneHiddenLayer:
    return read(OneHiddenLayer, {**SHALLOW, **changes})


def deeper(**changes: Any) -> TwoHiddenLayers:
    return read(TwoHiddenLayers, {**DEEPER, **changes})


def pictures() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.random((12, 4, 4, 3), dtype=np.float32)
    y = np.arange(12) % 3
    return Dataset("made_up", x, y, x[:0], y[:0], ("a", "b", "c"))


CONTEXT = Context(seed=0, datasets={"made_up": pictures()})
GLOVE = states(embedding="glove", embedding_dimension=5)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    made = {
        NAMES[0]: output_kernels(Context(seed=0), states(swapped="matrices")),
        NAMES[1]: output_kernels(Context(seed=0), states()),
        NAMES[2]: tangent_kernel_distances(CONTEXT, read(TangentKernels, TANGENTS)),
        NAMES[3]: one_hidden_layer(CONTEXT, shallow()),
        NAMES[5]: two_hidden_layers(CONTEXT, deeper()),
        NAMES[6]: two_hidden_layers(CONTEXT, deeper(training={**TRAINING, "batch_size_max": 4})),
    }
    trained = Context(seed=0, tables={NAMES[3]: made[NAMES[3]]})
    made[NAMES[4]] = readout_norms(trained, ReadoutNorms(quantities=("readout_norm",)))
    return made


@pytest.fixture(scope="module")
def catalogue() -> Any:
    return load_catalogue(Paths(find_root()))


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_drawn(catalogue: Any, tables: dict[str, pd.DataFrame], name: Any, tmp_path: Path) -> None:
    artifact = catalogue.artifact(name)
    assert callable(study_function(artifact))
    drawn = figure_function(artifact)(tables[name], artifact)
    assert isinstance(drawn, Figure)
    assert all(axis.lines for axis in drawn.axes)
    drawn.savefig(tmp_path / "figure.png")


def mean_distance(table: Any, **where: Any) -> Any:
    for column, value in {"quantity": "distance", **where}.items():
        table = table[table[column] == value]
    return table["value"].mean()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_wider_networks_are_nearer_to_the_limit(tables: dict[str, pd.DataFrame], number: int) -> None:
    table = tables[NAMES[number]]
    for architecture in table["architecture"].unique():
        narrow, wide = (
            mean_distance(table, architecture=architecture, law="gaussian", width=width) for width in (16, 64)
        )
        assert wide < narrow / 1.3


def test_only_other_laws_of_all_parameters_shift_the_limit(tables: dict[str, pd.DataFrame]) -> None:
    swapped, matrices = tables[NAMES[1]], tables[NAMES[0]]
    shifts = swapped[swapped["quantity"] == "limit shift"].groupby(["architecture", "law"])["value"].mean()
    assert shifts["gru", "uniform"] > 0.02
    assert shifts["gru", "gaussian"] == 0
    assert (shifts["transformer"] == 0).all()
    assert (matrices.loc[matrices["quantity"] == "limit shift", "value"] == 0).all()
    assert set(swapped.loc[swapped["quantity"] == "own distance", "law"]) == {"uniform", "cubecauchy"}
    assert "own distance" not in set(matrices["quantity"])


def test_sampled_limits_say_how_well_they_are_known(tables: dict[str, pd.DataFrame]) -> None:
    errors = tables[NAMES[0]].query("quantity == 'limit error'").set_index("architecture")["value"]
    assert 0 < errors["gru"] < 0.02
    assert errors["transformer"] == 0


def test_distances_from_parts_that_do_not_overlap(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[NAMES[3]]
    rows = table[(table["quantity"] == "distance") & (table["law"] == "uniform")]
    counts = rows.groupby(["scalar", "width", "epoch", "networks"]).size().unstack()
    assert (counts[["N", "N/2", "N/4"]] == [1, 2, 4]).all().all()
    means = rows.groupby("networks")["value"].mean()
    assert means["N/4"] > means["N"]  # fewer networks, more noise in the distance


def test_networks_learn_and_laws_of_one_hidden_layer_part(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[NAMES[3]]
    means = table[(table["quantity"] == "mean") & (table["scalar"] == "train_loss") & (table["width"] == 32)]
    by_epoch = means.groupby("epoch")["value"].mean()
    assert by_epoch[20] < 0.8 * by_epoch[1]
    assert by_epoch[1] == pytest.approx(np.log(3), abs=0.1)
    apart, noise = (
        mean_distance(table, law=law, epoch=1, scalar="readout_norm", networks="N")
        for law in ("exponential", "gaussian_again")
    )
    assert apart > 1.5 * noise


def test_wide_networks_stand_for_the_limit(tables: dict[str, pd.DataFrame]) -> None:
    table = tables[NAMES[3]]
    gaps = table[table["quantity"] == "limit gap"]
    assert set(gaps["law"]) == {"uniform", "exponential"}
    assert set(gaps["width"]) == {512}
    assert gaps.groupby(["scalar", "law", "epoch"]).size().eq(4).all()


def test_readout_norms_come_from_the_same_trainings(tables: dict[str, pd.DataFrame]) -> None:
    first, second = tables[NAMES[3]], tables[NAMES[4]]
    own = second[second["quantity"] != "settling"].reset_index(drop=True)
    expected = first[first["scalar"] == "readout_norm"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[expected.columns], expected, check_dtype=False)
    assert set(second.loc[second["quantity"] == "settling", "scalar"]) == {"train_loss", "readout_norm"}


def test_settling_is_the_change_from_half_to_all() -> None:
    base = {"quantity": "distance", "scalar": "s", "law": "l", "swapped": "all", "width": 8, "epoch": 1}
    table = pd.DataFrame(
        [{**base, "networks": n, "value": v} for n, v in (("N", 2.0), ("N/2", 2.0), ("N/2", 3.0), ("N/4", 9.0))]
    )
    assert settling(table)["value"].tolist() == [0.25]


def test_matrix_alone_and_all_weights_are_two_ensembles(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables[NAMES[5]].query("quantity == 'mean' and law == 'exponential'")
    assert rows.groupby("swapped")["value"].first().nunique() == 2
    assert set(tables[NAMES[5]].query("law == 'gaussian_again'")["swapped"]) == {"all"}


def test_same_seed_same_table_and_other_seed_another(tables: dict[str, pd.DataFrame]) -> None:
    again = two_hidden_layers(CONTEXT, deeper())
    pd.testing.assert_frame_equal(tables[NAMES[5]], again)
    other = two_hidden_layers(Context(seed=1, datasets=CONTEXT.datasets), deeper())
    assert not other["value"].equals(again["value"])


@pytest.mark.parametrize(
    ("number", "module", "inner"),
    [(3, ensembles, "train"), (1, kernels, "relative_distance")],
    ids=["training", "kernels"],
)
def test_killed_job_goes_on_with_the_same_numbers(
    tables: dict[str, pd.DataFrame],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    module: Any,
    inner: str,
) -> None:
    context = Context(seed=0, datasets=CONTEXT.datasets, work=WorkFolder(tmp_path))
    study: Any
    study, settings = {3: (one_hidden_layer, shallow()), 1: (output_kernels, states())}[number]
    whole, calls = getattr(module, inner), 0

    def killed(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(module, inner, killed)
    with pytest.raises(KeyboardInterrupt):
        study(context, settings)
    monkeypatch.undo()
    stored = len(list(tmp_path.glob("*.npz")))
    assert stored >= 3
    pd.testing.assert_frame_equal(study(context, settings), tables[NAMES[number]])
    assert len(list(tmp_path.glob("*.npz"))) > stored


def test_diverged_training_says_which(tables: dict[str, pd.DataFrame]) -> None:
    with pytest.raises(TangentbenchError, match=r"gaussian-all-8 diverged with learning rate 1e\+30"):
        one_hidden_layer(CONTEXT, shallow(training={**TRAINING, "learning_rate": 1e30}))


def test_words_have_one_vector_each() -> None:
    sequences = sentences_as_sequences(Context(seed=0), states())
    assert sequences.lengths == (3, 4)
    np.testing.assert_array_equal(sequences.tokens[0], sequences.tokens[3])
    again = sentences_as_sequences(Context(seed=0), states())
    np.testing.assert_array_equal(sequences.tokens, again.tokens)


def word_data(words: tuple[str, ...]) -> Context:
    x, y = np.eye(len(words), 5, dtype=np.float32), np.arange(len(words))
    return Context(seed=0, datasets={"words": Dataset("words", x, y, x[:0], y[:0], words)})


def test_published_vectors_are_taken_by_word() -> None:
    sequences = sentences_as_sequences(word_data(("quick", "fox", "jumps", "the")), GLOVE)
    assert sequences.tokens.argmax(axis=1).tolist() == [3, 1, 2, 3, 0, 1, 2]


def test_word_vectors_that_do_not_fit_are_named() -> None:
    with pytest.raises(TangentbenchError, match="lack jumps, quick"):
        sentences_as_sequences(word_data(("fox", "the")), GLOVE)
    with pytest.raises(TangentbenchError, match="have 5 dimensions, not 100"):
        settings = states(embedding="glove", embedding_dimension=100)
        sentences_as_sequences(word_data(("quick", "fox", "jumps", "the")), settings)


@pytest.mark.parametrize(
    ("make", "changes", "says"),
    [
        (states, {"embedding": "word2vec"}, "embedding: 'word2vec' is not known here .allowed: glove, random"),
        (states, {"architectures": ["lstm"]}, r"architectures\[0\]: 'lstm' is not known here"),
        (states, {"distributions": ["lapalce"]}, r"distributions\[0\]: 'lapalce' is not known here"),
        (states, {"swapped": "biases"}, "swapped: 'biases' is not known here .allowed: all, matrices"),
        (states, {"limit": {"log2_points": 8}}, "limit: missing setting scramblings"),
        (shallow, {"training": {**TRAINING, "activation": "tanh"}}, "training.activation: 'tanh' is not known here"),
        (shallow, {"training": {**TRAINING, "momentum": 1}}, "training.momentum: expected `float` < 1"),
        (shallow, {"inits": 3}, "inits: expected `int` >= 4"),
        (deeper, {"swapped": ["vectors"]}, r"swapped\[0\]: 'vectors' is not known here"),
    ],
)
def test_wrong_settings_are_said_with_file_and_key(make: Any, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"catalogue\.yaml at artifacts\.x\.settings\.{says}"):
        make(**changes)


def test_the_settings_know_every_distribution() -> None:
    assert set(get_args(Distribution)) == set(DISTRIBUTIONS)


def test_batches_fit_their_budget() -> None:
    assert [list(part) for part in chunks(5, 10, 25)] == [[0, 1], [2, 3], [4]]
    assert [list(part) for part in chunks(2, 100, 25)] == [[0], [1]]


def test_work_grows_with_widths_and_starts() -> None:
    def gflop(work: Any) -> Any:
        return sum(work.units.values())

    assert gflop(state_kernels(states(inits=1200))) > 50 * gflop(
        state_kernels(states(limit={"log2_points": 0, "scramblings": 4}))
    )
    assert gflop(training_work(shallow(widths=[32]))) > gflop(training_work(shallow(widths=[8])))
    assert gflop(deeper_work(deeper(inits=160))) == pytest.approx(2 * gflop(deeper_work(deeper())))

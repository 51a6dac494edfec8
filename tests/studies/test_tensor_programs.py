"""The study of non-Gaussian weights at a size that runs in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tangentbench.datasets import Dataset
from tangentbench.errors import TangentbenchError, UnknownName
from tangentbench.paths import Paths, find_root
from tangentbench.studies.registry import Context, figure_function, study_function
from tangentbench.studies.tensor_programs.costs import kernels as kernel_work
from tangentbench.studies.tensor_programs.costs import one_hidden_layer as training_work
from tangentbench.studies.tensor_programs.costs import two_hidden_layers as deeper_work
from tangentbench.studies.tensor_programs.measure import ensembles, kernels
from tangentbench.studies.tensor_programs.measure.ensembles import (
    one_hidden_layer,
    readout_norms,
    settling,
    two_hidden_layers,
)
from tangentbench.studies.tensor_programs.measure.kernels import output_kernels, tangent_kernel_distances
from tangentbench.studies.tensor_programs.measure.swapping import chunks, laws_of
from tangentbench.studies.tensor_programs.measure.words import sentences_as_sequences
from tangentbench.suite.catalogue import load_catalogue

NAMES = [f"tensor_programs_figA_{number}" for number in range(1, 8)]
SENTENCES = ["The fox jumps", "the quick fox jumps"]
OUTPUTS = {
    "architectures": ["gru", "transformer"],
    "laws": ["gaussian", "uniform", "cubecauchy"],
    "swapped": "all",
    "truncation_sigmas": 2.0,
    "sentences": SENTENCES,
    "embedding": "random",
    "embedding_dimension": 12,
    "transformer_depth": 2,
    "widths": [16, 64],
    "inits": 12,
    "limit_log2_points": 8,
    "limit_scramblings": 4,
}
TANGENTS = {
    "architectures": ["rnn", "transformer"],
    "laws": ["gaussian", "truncated_gaussian"],
    "swapped": "all",
    "truncation_sigmas": 2.0,
    "pixels": 4,
    "image_places": [0, 2],
    "widths": [16, 64],
    "inits": 12,
    "limit_log2_points": 8,
    "limit_scramblings": 4,
}
TRAINED = {
    "laws": ["gaussian_again", "uniform", "exponential"],
    "quantities": ["train_loss", "readout_norm"],
    "images": 6,
    "parametrisation": "maximal_update",
    "activation": "relu",
    "step": 0.3,
    "momentum": 0.9,
    "batch_size_max": 100,
    "epochs_shown": [1, 20],
    "widths": [8, 32],
    "inits": 80,
}
SHALLOW = {**TRAINED, "limit_width": 512, "limit_runs": 4}
DEEPER = {
    **TRAINED,
    "laws": ["gaussian_again", "exponential"],
    "swapped": ["all", "matrices"],
    "quantities": ["train_loss"],
}


def pictures() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.random((12, 4, 4, 3), dtype=np.float32)
    y = np.arange(12) % 3
    return Dataset("made_up", x, y, x[:0], y[:0], ("a", "b", "c"))


CONTEXT = Context(seed=0, datasets={"made_up": pictures()})


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    made = {
        NAMES[0]: output_kernels(Context(seed=0), **{**OUTPUTS, "swapped": "matrices"}),
        NAMES[1]: output_kernels(Context(seed=0), **OUTPUTS),
        NAMES[2]: tangent_kernel_distances(CONTEXT, **TANGENTS),
        NAMES[3]: one_hidden_layer(CONTEXT, **SHALLOW),
        NAMES[5]: two_hidden_layers(CONTEXT, **DEEPER),
        NAMES[6]: two_hidden_layers(CONTEXT, **{**DEEPER, "batch_size_max": 4}),
    }
    made[NAMES[4]] = readout_norms(Context(seed=0, tables={NAMES[3]: made[NAMES[3]]}), quantities=["readout_norm"])
    return made


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue(Paths(find_root()))


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_drawn(catalogue, tables, name, tmp_path: Path):
    artifact = catalogue.artifact(name)
    assert callable(study_function(artifact))
    drawn = figure_function(artifact)(tables[name], artifact)
    assert isinstance(drawn, Figure)
    assert all(axis.lines for axis in drawn.axes)
    drawn.savefig(tmp_path / "figure.png")


def mean_distance(table, **where):
    for column, value in {"quantity": "distance", **where}.items():
        table = table[table[column] == value]
    return table["value"].mean()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_wider_networks_are_nearer_to_the_limit(tables, number):
    table = tables[NAMES[number]]
    for architecture in table["architecture"].unique():
        narrow, wide = (
            mean_distance(table, architecture=architecture, law="gaussian", width=width) for width in (16, 64)
        )
        assert wide < narrow / 1.3


def test_only_other_laws_of_all_parameters_shift_the_limit(tables):
    swapped, matrices = tables[NAMES[1]], tables[NAMES[0]]
    shifts = swapped[swapped["quantity"] == "limit shift"].groupby(["architecture", "law"])["value"].mean()
    assert shifts["gru", "uniform"] > 0.02
    assert shifts["gru", "gaussian"] == 0
    assert (shifts["transformer"] == 0).all()
    assert (matrices.loc[matrices["quantity"] == "limit shift", "value"] == 0).all()
    assert set(swapped.loc[swapped["quantity"] == "own distance", "law"]) == {"uniform", "cubecauchy"}
    assert "own distance" not in set(matrices["quantity"])


def test_sampled_limits_say_how_well_they_are_known(tables):
    errors = tables[NAMES[0]].query("quantity == 'limit error'").set_index("architecture")["value"]
    assert 0 < errors["gru"] < 0.02
    assert errors["transformer"] == 0


def test_distances_from_parts_that_do_not_overlap(tables):
    table = tables[NAMES[3]]
    rows = table[(table["quantity"] == "distance") & (table["law"] == "uniform")]
    counts = rows.groupby(["scalar", "width", "epoch", "networks"]).size().unstack()
    assert (counts[["N", "N/2", "N/4"]] == [1, 2, 4]).all().all()
    means = rows.groupby("networks")["value"].mean()
    assert means["N/4"] > means["N"]  # fewer networks, more noise in the distance


def test_networks_learn_and_laws_of_one_hidden_layer_part(tables):
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


def test_wide_networks_stand_for_the_limit(tables):
    table = tables[NAMES[3]]
    gaps = table[table["quantity"] == "limit gap"]
    assert set(gaps["law"]) == {"uniform", "exponential"}
    assert set(gaps["width"]) == {512}
    assert gaps.groupby(["scalar", "law", "epoch"]).size().eq(4).all()


def test_readout_norms_come_from_the_same_trainings(tables):
    first, second = tables[NAMES[3]], tables[NAMES[4]]
    own = second[second["quantity"] != "settling"].reset_index(drop=True)
    expected = first[first["scalar"] == "readout_norm"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own[expected.columns], expected, check_dtype=False)
    assert set(second.loc[second["quantity"] == "settling", "scalar"]) == {"train_loss", "readout_norm"}


def test_settling_is_the_change_from_half_to_all():
    base = {"quantity": "distance", "scalar": "s", "law": "l", "swapped": "all", "width": 8, "epoch": 1}
    table = pd.DataFrame(
        [{**base, "networks": n, "value": v} for n, v in (("N", 2.0), ("N/2", 2.0), ("N/2", 3.0), ("N/4", 9.0))]
    )
    assert settling(table)["value"].tolist() == [0.25]


def test_matrix_alone_and_all_weights_are_two_ensembles(tables):
    rows = tables[NAMES[5]].query("quantity == 'mean' and law == 'exponential'")
    assert rows.groupby("swapped")["value"].first().nunique() == 2
    assert set(tables[NAMES[5]].query("law == 'gaussian_again'")["swapped"]) == {"all"}


def test_same_seed_same_table_and_other_seed_another(tables):
    again = two_hidden_layers(CONTEXT, **DEEPER)
    pd.testing.assert_frame_equal(tables[NAMES[5]], again)
    other = two_hidden_layers(Context(seed=1, datasets=CONTEXT.datasets), **DEEPER)
    assert not other["value"].equals(again["value"])


@pytest.mark.parametrize(
    ("number", "module", "inner"),
    [(3, ensembles, "train"), (1, kernels, "relative_distance")],
    ids=["training", "kernels"],
)
def test_killed_job_goes_on_with_the_same_numbers(tables, tmp_path: Path, monkeypatch, number, module, inner):
    context = Context(seed=0, datasets=CONTEXT.datasets, work=tmp_path)
    study, settings = {3: (one_hidden_layer, SHALLOW), 1: (output_kernels, OUTPUTS)}[number]
    whole, calls = getattr(module, inner), 0

    def killed(*arguments):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(module, inner, killed)
    with pytest.raises(KeyboardInterrupt):
        study(context, **settings)
    monkeypatch.undo()
    stored = len(list(tmp_path.glob("*.npz")))
    assert stored >= 3
    pd.testing.assert_frame_equal(study(context, **settings), tables[NAMES[number]])
    assert len(list(tmp_path.glob("*.npz"))) > stored


def test_diverged_training_says_which(tables):
    with pytest.raises(TangentbenchError, match="gaussian-all-8 diverged with step 1e\\+30"):
        one_hidden_layer(CONTEXT, **{**SHALLOW, "step": 1e30})


def test_words_have_one_vector_each():
    sequences = sentences_as_sequences(Context(seed=0), SENTENCES, "random", 12)
    assert sequences.lengths == (3, 4)
    np.testing.assert_array_equal(sequences.tokens[0], sequences.tokens[3])
    again = sentences_as_sequences(Context(seed=0), SENTENCES, "random", 12)
    np.testing.assert_array_equal(sequences.tokens, again.tokens)


def word_data(words: tuple[str, ...]) -> Context:
    x, y = np.eye(len(words), 5, dtype=np.float32), np.arange(len(words))
    return Context(seed=0, datasets={"words": Dataset("words", x, y, x[:0], y[:0], words)})


def test_published_vectors_are_taken_by_word():
    sequences = sentences_as_sequences(word_data(("quick", "fox", "jumps", "the")), SENTENCES, "glove", 5)
    assert sequences.tokens.argmax(axis=1).tolist() == [3, 1, 2, 3, 0, 1, 2]


def test_bad_settings_are_named():
    with pytest.raises(TangentbenchError, match="lack jumps, quick"):
        sentences_as_sequences(word_data(("fox", "the")), SENTENCES, "glove", 5)
    with pytest.raises(TangentbenchError, match="have 5 dimensions, not 100"):
        sentences_as_sequences(word_data(("quick", "fox", "jumps", "the")), SENTENCES, "glove", 100)
    with pytest.raises(UnknownName, match="embedding 'word2vec'"):
        sentences_as_sequences(Context(seed=0), SENTENCES, "word2vec", 5)
    with pytest.raises(UnknownName, match="architecture 'lstm'"):
        output_kernels(Context(seed=0), **{**OUTPUTS, "architectures": ["lstm"]})
    with pytest.raises(UnknownName, match="swapped parameters 'biases'"):
        laws_of("uniform", "biases")
    with pytest.raises(UnknownName, match="activation 'tanh'"):
        one_hidden_layer(CONTEXT, **{**SHALLOW, "activation": "tanh"})
    with pytest.raises(TangentbenchError, match="inits is 3"):
        one_hidden_layer(CONTEXT, **{**SHALLOW, "inits": 3})


def test_batches_fit_their_budget():
    assert [list(part) for part in chunks(5, 10, 25)] == [[0, 1], [2, 3], [4]]
    assert [list(part) for part in chunks(2, 100, 25)] == [[0], [1]]


def test_work_grows_with_widths_and_starts():
    def gflop(work):
        return sum(work.units.values())

    assert gflop(kernel_work(**{**OUTPUTS, "inits": 1200})) > 50 * gflop(
        kernel_work(**{**OUTPUTS, "limit_log2_points": 0})
    )
    assert gflop(training_work(**{**SHALLOW, "widths": [32]})) > gflop(training_work(**{**SHALLOW, "widths": [8]}))
    assert gflop(deeper_work(**{**DEEPER, "inits": 160})) == pytest.approx(2 * gflop(deeper_work(**DEEPER)))

"""Settings of the neural-path-kernel study, one record per artifact, without torch: the workflow reads them too."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from msgspec import Meta

from tangentbench.networks.architecture import (
    Architecture,
    MemorisationSpec,
    Shape,
    WeightDistribution,
    convolutional,
    fully_connected,
)
from tangentbench.studies.settings import (
    Count,
    NotNegative,
    Positive,
    Settings,
    WrongSetting,
    datasets_of,
    settings_of,
)
from tangentbench.theory.memorisation import critical_weight_scale

Depth = Annotated[int, Meta(ge=2)]
"""Layers of weights; at least one of them is hidden."""
Factor = Annotated[float, Meta(gt=0)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Initialisation = Literal["glorot_uniform", "bernoulli"]
Row = Literal["fc_sgd", "fc_adam", "vconv_sgd", "vconv_adam", "gconv_sgd", "gconv_adam"]
"""A row of Table 2: an architecture with an optimiser."""
Column = Literal["frnpf_ii", "frnpf_di", "dnpfl", "flnpf", "relu"]
"""A column of Table 2: a way to treat the gates."""
Mode = Literal["relu", "dnpfl"]


class FcNetwork(Settings):
    """`depth` layers of weights, `depth` - 1 hidden ones of `width` units."""

    width: Positive
    depth: Depth

    def architecture(self, input_shape: Shape, outputs: int, *, biases: bool = True) -> Architecture:
        return fully_connected(input_shape, self.width, self.depth, outputs, biases=biases)


class ConvNetwork(Settings):
    """Convolutions, flattening or global average pooling, and dense layers."""

    kernel: Positive
    stride: Positive
    padding: Literal["same", "valid"]
    channels: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    dense_units: tuple[Positive, ...]

    def architecture(self, input_shape: Shape, outputs: int, *, pooled: bool, biases: bool = True) -> Architecture:
        network = convolutional(
            input_shape,
            self.channels,
            self.dense_units,
            outputs,
            pooled=pooled,
            kernel=self.kernel,
            stride=self.stride,
            padding=self.padding,
        )
        return replace(network, biases=biases)


class SoftGate(Settings):
    """The gate of decoupled learning, height * sigmoid(beta q)."""

    beta: Factor
    height: Factor


class TrainingSettings(Settings):
    """How the runs of an artifact with one optimiser are trained."""

    optimiser: Literal["sgd", "adam", "rmsprop"]
    learning_rate: NotNegative
    batch_size: Positive
    epochs: Positive
    runs: Positive
    loss: Literal["cross_entropy", "squared"] = "cross_entropy"


@settings_of("npk_fig1")
class ToyNetwork(Settings):
    """`inputs` (examples, d_in) are the signals, `gates` (examples, hidden layers, units) the gates of each example."""

    inputs: Annotated[tuple[tuple[float, ...], ...], Meta(min_length=1)]
    gates: tuple[tuple[tuple[Literal[0, 1], ...], ...], ...]

    def __post_init__(self) -> None:
        if len({len(signal) for signal in self.inputs}) != 1:
            raise WrongSetting("inputs", "every example needs the same number of inputs")
        if len(self.gates) != len(self.inputs):
            reason = f"{len(self.inputs)} examples need as many lists of gates, not {len(self.gates)}"
            raise WrongSetting("gates", reason)
        if len({tuple(len(layer) for layer in layers) for layers in self.gates}) != 1:
            raise WrongSetting("gates", "every example needs the same number of gates in each layer")


class RowFamily(Settings):
    """What the rows of Table 2 on one data set share."""

    adam_learning_rate: NotNegative
    runs: Positive
    epochs: Positive
    train_images: Positive
    test_images: Positive
    validation_images: Count
    """Training images held out by the sound protocol; 0 leaves that protocol out."""


class FcRows(RowFamily):
    network: FcNetwork


class ConvRows(RowFamily):
    network: ConvNetwork


@settings_of("npk_table2")
class GateTable(Settings):
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    fc: FcRows
    conv: ConvRows
    initialisation: Initialisation
    biases: bool
    soft_gate: SoftGate
    batch_size: Positive
    sgd_learning_rates: Annotated[tuple[NotNegative, ...], Meta(min_length=1)]
    flnpf_checkpoint: Literal["best_test", "last"]
    """The epoch of the ReLU network that FLNPF takes its gates from."""
    stop_at_train_accuracy: Factor

    def family(self, row: Row) -> FcRows | ConvRows:
        return self.fc if row.startswith("fc") else self.conv

    def architecture(self, row: Row, input_shape: Shape, outputs: int) -> Architecture:
        if row.startswith("fc"):
            return self.fc.network.architecture(input_shape, outputs, biases=self.biases)
        pooled = row.startswith("gconv")
        return self.conv.network.architecture(input_shape, outputs, pooled=pooled, biases=self.biases)

    def optimiser(self, row: Row) -> str:
        return row.split("_")[1]

    def learning_rates(self, row: Row) -> tuple[float, ...]:
        """Every learning rate that is tried: the table prints the best of SGD's and one for Adam."""
        return self.sgd_learning_rates if self.optimiser(row) == "sgd" else (self.family(row).adam_learning_rate,)


@datasets_of("npk_table2")
def datasets_of_rows(names: tuple[str, ...], settings: GateTable) -> list[str]:
    """The catalogue names the digits of the fully connected rows first, then the colour images of the others."""
    digits, colours = names
    fully_connected_rows = [row.startswith("fc") for row in settings.rows]
    return [*([digits] if any(fully_connected_rows) else []), *([] if all(fully_connected_rows) else [colours])]


@settings_of("npk_fig3a")
class Stages(Settings):
    architecture: Literal["gconv", "vconv"]
    network: ConvNetwork
    training: TrainingSettings
    checkpoint_epochs: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    """The stages: epochs of the ReLU network after which its gates are copied."""
    train_images: Positive
    test_images: Positive

    def built(self, input_shape: Shape, outputs: int) -> Architecture:
        return self.network.architecture(input_shape, outputs, pooled=self.architecture == "gconv")


class DigitTraining(Settings):
    """A fully connected network that learns digits while it is measured."""

    network: FcNetwork
    training: TrainingSettings
    train_images: Positive


@settings_of("npk_fig3b")
class LabelAlignment(DigitTraining):
    initialisation: Initialisation
    biases: bool
    kernel_images: Positive
    ridge: NotNegative
    """This share of the mean eigenvalue is added to the kernel's diagonal."""
    probe_every_epochs: Positive


@settings_of("npk_fig3c")
class DecoupledKernels(DigitTraining):
    soft_gate: SoftGate
    kernel_images_per_class: Positive
    outputs: Literal["sum", "mean"]
    """How the kernels of the outputs are joined into one."""
    probe_every_epochs: Positive


@settings_of("npk_gates")
class FlippingGates(DigitTraining):
    modes: tuple[Mode, ...]
    soft_gate: SoftGate
    gate_images_per_class: Positive


@settings_of("npk_theorem5_1")
class FrozenGates(Settings):
    sigma_squared_times_width: Factor
    depths: tuple[Depth, ...]
    widths: tuple[Positive, ...]
    images: Positive
    gates: Literal["random_relu"]
    padded_gate_width: Positive
    paddings: tuple[Positive, ...]
    runs: Annotated[int, Meta(ge=2)]
    """Draws of the value weights; a variance needs two."""


class MemorisationTask(Settings):
    """Fixed random gates for each of `examples` targets, on with probability `gate_probability` (mu)."""

    examples: Positive
    gate_probability: Probability
    depths: tuple[Depth, ...]


@settings_of("npk_fig5")
class IdealSpectrum(MemorisationTask):
    pass


class MemorisationDescent(Settings):
    """Full-batch gradient descent with the learning rate `learning_rate_times_rho_max` / rho_max."""

    learning_rate_times_rho_max: Factor
    rho_max: Literal["measured", "expected"]
    """The largest eigenvalue of each run's own K_0, or that of E[K_0]."""
    kernel_over_depth: bool
    """Whether rho_max is that of K_0/d, which makes the learning rate d times as large, instead of K_0."""
    steps: Positive
    stop_below: NotNegative
    """Training ends once every run's squared error is this part of that at the start."""
    records: Annotated[int, Meta(ge=2)]


@settings_of("npk_fig6")
class Memorisation(MemorisationTask):
    widths: tuple[Positive, ...]
    weight_distribution: WeightDistribution
    runs: Positive
    descent: MemorisationDescent
    converged_below: Factor
    precision: Literal["float32", "float64"]

    def networks(self) -> list[MemorisationSpec]:
        """One network for each width and depth."""
        return [
            MemorisationSpec(
                width=width,
                depth=depth,
                examples=self.examples,
                gate_probability=self.gate_probability,
                weight_scale=critical_weight_scale(width, self.gate_probability),
                weight_distribution=self.weight_distribution,
            )
            for width in self.widths
            for depth in self.depths
        ]

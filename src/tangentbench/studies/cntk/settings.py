"""The settings of the CNTK study's artifacts, for its measurements, its Gram matrices and its work models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

from msgspec import Meta

from tangentbench.datasets.choice import ImageChoice
from tangentbench.studies.cntk.cells import Cell, Column, KernelColumn, Pooling, Table1Cells, Table1Column, Table2Cells
from tangentbench.studies.settings import NotNegative, Positive, Settings, WrongSetting, settings_of

Depth = Annotated[int, Meta(ge=2)]
Rate = Annotated[float, Meta(gt=0)]
Images = Literal["vanilla", "gap"]
ImageSet = Literal["compared", "all"]


class _Filters(Settings, frozen=True):
    """filter_size: the side of the square filters, odd so that they have a middle."""

    filter_size: Positive

    def __post_init__(self) -> None:
        if self.filter_size % 2 == 0:
            raise WrongSetting("filter_size", f"a filter of side {self.filter_size} has no middle: choose 1, 3, 5, ...")


class Layers(_Filters, frozen=True):
    """The networks behind vanilla kernels, all of whose layers section 4.1 trains."""

    vanilla_trains_first_and_last: bool

    def trains_first_and_last(self, pooling: Pooling) -> bool:
        assert pooling == "flatten", "networks with pooling have settings of their own"
        return self.vanilla_trains_first_and_last


class BothLayers(Layers, frozen=True):
    """Also those with global average pooling, whose first and last layer section 4.2 fixes."""

    gap_trains_first_and_last: bool

    def trains_first_and_last(self, pooling: Pooling) -> bool:
        return self.gap_trains_first_and_last if pooling == "gap" else self.vanilla_trains_first_and_last


class Preparation(Settings, frozen=True):
    """How images are prepared and chosen; they are averaged down to `side`."""

    side: Positive
    pixels: Literal["standardised", "unit_interval"]
    subset: Literal["balanced", "random"]

    def choice(self, train: int, test: int, subset_number: int = 0) -> ImageChoice:
        return ImageChoice(train, test, self.side, self.pixels, self.subset, subset_number)


class Fit(Settings, frozen=True):
    """How labels are coded and fitted.

    coding: `one_hot` is label_offset 1 + e_c, one column per class (section 5.1); `sign` is one column of -1 and +1.
    """

    ridge: NotNegative
    label_offset: float
    coding: Literal["one_hot", "sign"] = "one_hot"


class Search(Settings, frozen=True):
    """What the finite networks of Table 1 are searched over.

    kappas: the standard deviation of the networks' output at initialisation; kappa is this over that of f.
    learning_rates: in units of 1 / (kappa^2 mean k(x, x)), k the exact tangent kernel; twice the unit is the border of
        stability for the largest eigenvalue the kernel matrix over n can have. The paper's values are not printed.
    chosen_on: `test` is the paper's protocol, the best test accuracy among all hyperparameters.
    """

    channels: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    learning_rates: Annotated[tuple[Rate, ...], Meta(min_length=1)]
    kappas: Annotated[tuple[Rate, ...], Meta(min_length=1)]
    epochs: Positive
    batch_size: Positive
    loss: Literal["squared"]
    runs: Positive
    chosen_on: Literal["test"]


@settings_of("cntk_table1")
class Table1(Settings, frozen=True):
    """train_images, test_images, subsets: per column; one without `subsets` has a single set of training images.

    tiles: images per side of a tile of a kernel's Gram matrix, per column; a killed job loses one tile.
    """

    cells: tuple[Table1Cells, ...]
    layers: BothLayers
    images: Preparation
    fit: Fit
    networks: Search
    train_images: dict[Table1Column, Positive]
    test_images: dict[Table1Column, Positive]
    subsets: dict[KernelColumn, Positive]
    tiles: dict[KernelColumn, Positive]

    def __post_init__(self) -> None:
        _require_tiles(self.all_cells, self.tiles)
        for key, given in (("train_images", self.train_images), ("test_images", self.test_images)):
            _require_all(key, [cell.column.name for cell in self.all_cells], list(given))

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        return tuple(chain(*self.cells))

    def image_choice(self, column: Column, subset_number: int = 0) -> ImageChoice:
        train, test = (of_column(given, column) for given in (self.train_images, self.test_images))
        return self.images.choice(train, test, subset_number)

    def subset_count(self, column: Column) -> int:
        return of_column(self.subsets, column) if column.name in self.subsets else 1


@settings_of("cntk_vanilla_full")
class VanillaFull(Settings, frozen=True):
    depths: tuple[Depth, ...]
    layers: Layers
    images: Preparation
    fit: Fit
    train_images: Positive
    test_images: Positive
    tile: Positive


@settings_of("cntk_table2")
class Table2(Settings, frozen=True):
    """train_images: for `vanilla` and `gap`, how many are `compared` (both kinds of kernel) and how many the exact
    kernel is trained on besides (`all`); equal numbers are computed once.

    tiles: as in Table 1.
    features_of: whether the first and last layer count as random features where they are not trained.
    feature_gib: memory for the features of one block of images.
    """

    cells: tuple[Table2Cells, ...]
    layers: BothLayers
    images: Preparation
    fit: Fit
    channels: Positive
    draws: Positive
    features_of: Literal["trained_layers", "all_layers"]
    train_images: dict[Images, dict[ImageSet, Positive]]
    test_images: dict[Images, Positive]
    feature_gib: Annotated[float, Meta(gt=0)]
    tiles: dict[KernelColumn, Positive]

    def __post_init__(self) -> None:
        _require_tiles(self.all_cells, self.tiles)
        needed = [_images_of(cell.column.pooling) for cell in self.all_cells]
        for key, given in (("train_images", list(self.train_images)), ("test_images", list(self.test_images))):
            _require_all(key, needed, given)
        for name, counts in self.train_images.items():
            _require_all(f"train_images.{name}", ["compared", "all"], list(counts))

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        return tuple(chain(*self.cells))

    def train_counts(self, pooling: Pooling) -> dict[ImageSet, int]:
        return self.train_images[_images_of(pooling)]

    def test_count(self, pooling: Pooling) -> int:
        return self.test_images[_images_of(pooling)]


class Trained(Settings, frozen=True):
    """Trained networks: full-batch gradient descent on 1/2 sum (kappa f - y)^2 (Theorem 3.2).

    learning_rate: in units of 1 / (kappa^2 rho_max(H*)), rho_max the largest eigenvalue of the exact kernel.
    """

    depth: Depth
    widths: tuple[Positive, ...]
    runs: Positive
    train_images: Positive
    test_images: Positive
    kappa: Rate
    learning_rate: Rate
    steps: Positive
    loss: Literal["squared"]


@settings_of("cntk_convergence")
class Convergence(_Filters, frozen=True):
    """Random networks of every depth and width on `images` images of side `image_side`, and the trained ones."""

    architectures: tuple[Literal["fc", "cnn_v", "cnn_gap"], ...]
    depths: tuple[Depth, ...]
    gap_trains_first_and_last: bool
    inputs: Literal["unit_norm", "standardised"]
    image_side: Positive
    images: Positive
    widths: tuple[Positive, ...]
    runs: Positive
    trained: Trained


def _images_of(pooling: Pooling) -> Images:
    """What Table 2's numbers of images are called in the catalogue."""
    return "gap" if pooling == "gap" else "vanilla"


def of_column(numbers: Mapping[Any, int], column: Column) -> int:
    return numbers[column.name]


def _require_tiles(cells: Sequence[Cell], tiles: Mapping[Any, int]) -> None:
    _require_all("tiles", [cell.column.name for cell in cells if cell.column.method == "kernel"], list(tiles))


def _require_all(key: str, needed: Sequence[str], given: Sequence[str]) -> None:
    if missing := sorted(set(needed) - set(given)):
        raise WrongSetting(key, f"there is no number for {', '.join(missing)}")

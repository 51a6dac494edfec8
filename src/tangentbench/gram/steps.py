"""The steps from a plan to a certified Gram matrix; a step is a job, and tiles may be computed anywhere in any order.

Images are prepared once and mapped by every tile's job, which reads and checks only the two blocks it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tangentbench.atomic import written_whole
from tangentbench.datasets import load_dataset
from tangentbench.datasets.choice import select
from tangentbench.errors import DataMissing, ResultUnreadable, TangentbenchError
from tangentbench.gram.by_settings import NamedKernel, named_kernel
from tangentbench.gram.certificate import certify
from tangentbench.gram.grid import tile_key
from tangentbench.gram.plans import TEST, TRAIN, GramPlan
from tangentbench.gram.store import Array, Gram
from tangentbench.gram.subset import read_from
from tangentbench.paths import Paths


def prepare_inputs(paths: Paths, plan: GramPlan, scale: str, seed: int) -> None:
    """Write the chosen images, (n, side, side, channels), for training and for testing."""
    images = select(load_dataset(paths.dataset(plan.dataset)), plan.plan.images, seed)
    for matrix, array in ((TRAIN, images.x_train), (TEST, images.x_test)):
        with written_whole(paths.gram_inputs(scale, plan.inputs, matrix)) as temporary, temporary.open("wb") as stream:
            np.save(stream, np.ascontiguousarray(array))


def create_store(paths: Paths, plan: GramPlan, matrix: str, scale: str, code: str = "") -> None:
    """Write the manifest, whose checksums tell every later job whether it has the right images.

    code: the fingerprint of what computes the tiles; tiles of other code that are there already are not used.
    """
    named_kernel(plan.plan.kernel)  # a wrong setting is said here, not by a thousand tiles
    x1, x2 = _map_inputs(paths, plan, matrix, scale)
    Gram.create(store_folder(paths, plan, matrix, scale), x1, x2, kernel=plan.plan.kernel, tile=plan.tile, code=code)


def compute_tile(paths: Paths, plan: GramPlan, matrix: str, tile: str, scale: str, threads: int) -> None:
    store = open_store(paths, plan, matrix, scale, check_all=False)
    kernel = named_kernel(plan.plan.kernel, threads=threads)
    for whole in larger_stores(paths, plan, store, matrix, scale):
        kernel = NamedKernel(kernel.identity, read_from(whole, kernel))
    store.compute(kernel, [tile_key(tile)])


def larger_stores(paths: Paths, plan: GramPlan, mine: Gram, matrix: str, scale: str) -> Iterator[Gram]:
    """Finished matrices of the same kernel and code on more images of the same data set, to be read instead."""
    for certificate in sorted(paths.scale(scale).glob(f"grams/{plan.dataset}-*/{plan.key}/{matrix}/certificate.json")):
        inputs = certificate.parents[2].name
        try:
            other = Gram.open(certificate.parent, *_map_files(paths, inputs, matrix, scale), check_all=False)
        except TangentbenchError:
            continue  # another choice of images has gone, or is being made
        if inputs != plan.inputs and other.code == mine.code and other.shape[1] > mine.shape[1]:
            yield other


def seal(paths: Paths, plan: GramPlan, matrix: str, scale: str, threads: int) -> None:
    """Compare all checksums, compute again what is damaged, and certify with torch in float64 as second opinion."""
    store = open_store(paths, plan, matrix, scale, check_all=True)
    kernel = named_kernel(plan.plan.kernel, threads=threads)
    store.compute(kernel)
    certify(store, kernel, second=named_kernel(plan.plan.kernel, backend="torch", dtype="float64"))


def open_store(paths: Paths, plan: GramPlan, matrix: str, scale: str, *, check_all: bool) -> Gram:
    return Gram.open(
        store_folder(paths, plan, matrix, scale), *_map_inputs(paths, plan, matrix, scale), check_all=check_all
    )


def store_folder(paths: Paths, plan: GramPlan, matrix: str, scale: str) -> Path:
    return paths.gram_store(scale, plan.inputs, plan.key, matrix)


def _map_inputs(paths: Paths, plan: GramPlan, matrix: str, scale: str) -> tuple[Array, Array | None]:
    return _map_files(paths, plan.inputs, matrix, scale)


def _map_files(paths: Paths, inputs: str, matrix: str, scale: str) -> tuple[Array, Array | None]:
    train = map_images(paths.gram_inputs(scale, inputs, TRAIN))
    return (train, None) if matrix == TRAIN else (map_images(paths.gram_inputs(scale, inputs, TEST)), train)


def map_images(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataMissing(
            f"{path} is missing: ask Snakemake for the Gram matrix, it prepares its images first"
        ) from None
    except (ValueError, EOFError) as error:
        raise ResultUnreadable(path, str(error)) from error
    return array

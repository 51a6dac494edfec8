"""From a kernel to a test accuracy: Gram matrices in a store that a killed job resumes, then regression."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tangentbench.atomic import read_json, write_json
from tangentbench.datasets.choice import Labels, Selection, select, with_prepared
from tangentbench.errors import ResultUnreadable
from tangentbench.gram.by_settings import named_kernel
from tangentbench.gram.plans import KernelPlan
from tangentbench.gram.steps import map_images
from tangentbench.gram.store import Gram, Kernel
from tangentbench.identity import WorkFolder
from tangentbench.solvers.regression import regress
from tangentbench.studies.cntk.settings import Fit
from tangentbench.studies.registry import Context

_log = logging.getLogger(__name__)


def coded(fit: Fit, labels: Labels, classes: int) -> NDArray[np.float64]:
    """The targets of labels (n,), shape (n, classes) or (n, 1)."""
    if fit.coding == "sign":
        return np.where(labels > 0, 1.0, -1.0)[:, None]
    return np.eye(classes)[labels] + fit.label_offset


def decoded(fit: Fit, scores: NDArray[np.float64]) -> Labels:
    """Classes (n,) from scores (n, classes) or (n, 1)."""
    found = scores[:, 0] > 0 if fit.coding == "sign" else scores.argmax(axis=1)
    return found.astype(np.int64)


@contextmanager
def store_folder(work: WorkFolder | None, name: str) -> Iterator[Path]:
    """A folder for one kernel in the job's own folder, or a temporary one."""
    if work is not None:
        yield work.folder(work.piece(name))
        return
    with tempfile.TemporaryDirectory(prefix="tangentbench-") as folder:
        yield Path(folder)


def exact_accuracy(context: Context, plan: KernelPlan, fit: Fit) -> dict[str, Any]:
    """The accuracy of a planned kernel.

    Matrices that the workflow computed tile by tile are used as they are, after their checksums and those of the
    images have been compared; a damaged tile is computed again.
    """
    images = _images(context, plan)
    kernel = named_kernel(plan.kernel, threads=context.threads)
    with store_folder(context.work, plan.name) as record:
        if plan.name in context.grams:
            store = context.grams[plan.name]
            return accuracy_of(kernel, plan.kernel, images, fit, folder=record, tile=plan.tile, store=store.folder)
        return accuracy_of(kernel, plan.kernel, images, fit, folder=record, tile=plan.tile)


def _images(context: Context, plan: KernelPlan) -> Selection:
    """The plan's images; those of matrices that the workflow computed are prepared already."""
    if plan.name not in context.grams:
        return select(context.dataset, plan.images, context.seed)
    store = context.grams[plan.name]
    train, test = map_images(store.train_images), map_images(store.test_images)
    return with_prepared(train, test, context.dataset, plan.images, context.seed)


def _finished(record: Path) -> dict[str, Any] | None:
    """What a job that was killed later found with this kernel; None where it did not come so far."""
    try:
        found = read_json(record)
    except FileNotFoundError:
        return None
    except ResultUnreadable as error:
        _log.warning("%s; this kernel is computed again", error)
        return None
    return found if isinstance(found, dict) and "value" in found else None


def accuracy_of(
    kernel: Kernel,
    settings: Mapping[str, Any],
    images: Selection,
    fit: Fit,
    *,
    folder: Path,
    tile: int,
    store: Path | None = None,
) -> dict[str, Any]:
    """Percent of the test images that kernel regression gets right, with what was found on the way.

    The matrices are kept in `folder` while they are needed; afterwards only a small record remains, with which a job
    that was killed later skips this kernel. Matrices in a `store` of their own are kept.
    """
    record_file = folder / "accuracy.json"
    found = _finished(record_file)
    if found is not None:
        return found
    if store is None:
        train = Gram.create(folder / "train", images.x_train, kernel=settings, tile=tile)
        test = Gram.create(folder / "test", images.x_test, images.x_train, kernel=settings, tile=tile)
    else:  # its tiles may be cut for another artifact that shares it
        train = Gram.open(store / "train", images.x_train)
        test = Gram.open(store / "test", images.x_test, images.x_train)
    train.compute(kernel)
    test.compute(kernel)
    regression = regress(train, coded(fit, images.y_train, images.classes), test, ridge=fit.ridge, jitter="auto")
    assert regression.scores is not None
    right = decoded(fit, regression.scores) == images.y_test
    found = {
        "value": 100.0 * float(right.mean()),
        "train_images": len(images.y_train),
        "test_images": len(images.y_test),
        "jitter": regression.predictor.jitter,
        "residual": regression.predictor.residual,
    }
    write_json(record_file, found)
    if store is None:
        for gram in (train, test):
            shutil.rmtree(gram.folder / "tiles", ignore_errors=True)
    _log.info("%s: %.2f %% of %d test images", dict(settings), found["value"], len(right))
    return found

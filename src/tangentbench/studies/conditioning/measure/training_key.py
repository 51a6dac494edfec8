"""The key of a training: tells it from every other one, so that artifacts with the same training share its rows."""

from __future__ import annotations

import hashlib

from tangentbench.studies.conditioning.settings import TrainingSettings


def training_key(settings: TrainingSettings, dataset: str, seed: int) -> str:
    """A hash of everything that decides the runs but their number.

    Tables hold keys, and a table is compared with others made by later versions of this code. The hashed text is
    therefore spelled out here, and does not change when a class or a setting is renamed.
    """
    text = _call(
        "Training",
        architecture=_architecture(settings),
        course=_course(settings),
        drops=repr(settings.drop_epochs),
        images=_images(settings),
        dataset=repr(dataset),
        choice=_choice(settings),
        printed_step=repr(settings.learning_rate),
        runs=repr(0),
        augmentation=repr(settings.augmentation),
        probe_absolute=repr(settings.probe_absolute),
        seed=repr(seed),
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _call(name: str, **values: str) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in values.items())})"


def _architecture(settings: TrainingSettings) -> str:
    network = settings.architecture
    return _call(
        "DeepArchitecture",
        kind=repr(network.kind),
        depth=repr(network.depth),
        width=repr(network.width),
        normalisation=repr(network.normalisation),
        image_shape=repr(network.image_shape),
        classes=repr(network.classes),
        fan=repr(network.fan),
        skip_scale=repr(network.skip_scale),
    )


def _course(settings: TrainingSettings) -> str:
    schedule = settings.schedule
    return _call(
        "Course",
        epochs=repr(schedule.epochs),
        batch_size=repr(schedule.batch_size),
        optimiser=repr(schedule.optimiser),
        momentum=repr(schedule.momentum),
        weight_decay=repr(schedule.weight_decay),
        step_drop=repr(schedule.learning_rate_drop),
        step_drop_every_epochs=repr(schedule.drop_every_epochs),
    )


def _images(settings: TrainingSettings) -> str:
    images = settings.images
    return _call(
        "Images",
        train=repr(images.train),
        test=repr(images.test),
        probe=repr(images.probe),
        side=repr(images.side),
        pixels=repr(images.pixels),
    )


def _choice(settings: TrainingSettings) -> str:
    search = settings.search
    grid = {} if search is None else {kind: list(rates) for kind, rates in search.grid.items()}
    return _call(
        "StepChoice",
        how=repr("printed" if search is None else "validation"),
        grid=repr(grid),
        epochs=repr(0 if search is None else search.epochs),
        held_out=repr(0 if search is None else search.held_out),
    )

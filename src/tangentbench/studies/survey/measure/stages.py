"""The three stages of kernel regression, each timed alone: the Gram matrix, integration, inference."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tangentbench.studies.survey.measure.images import Images
from tangentbench.studies.survey.measure.regimes import Regime
from tangentbench.studies.survey.settings import Regression, Timing
from tangentbench.training.engines.kernel_flow import KernelFlowResult, integrate, predicted_classes, targets

T = TypeVar("T")
GRAM, INTEGRATION, INFERENCE, COMPILATION = "gram", "integration", "inference", "compilation"


SHORTEST_SECONDS = 0.2
"""Stages of milliseconds are repeated for this long: caches, threads and clocks disturb a few repetitions of them."""


@dataclass(frozen=True)
class Spent:
    """The best of several: wall clock, and processor time over all threads (which other jobs disturb less)."""

    seconds: float
    core_seconds: float
    repeats: int


def timed(action: Callable[[], T], timing: Timing) -> tuple[T, Spent]:
    best, best_core, spent, count = float("inf"), float("inf"), 0.0, 0
    while True:
        wall, core = time.perf_counter(), time.process_time()
        result = action()
        wall, core = time.perf_counter() - wall, time.process_time() - core
        best, best_core, spent, count = min(best, wall), min(best_core, core), spent + wall, count + 1
        if spent >= timing.seconds or (count >= timing.repeats and spent >= SHORTEST_SECONDS):
            return result, Spent(best, best_core, count)


def regression_rows(regime: Regime, images: Images, settings: Regression) -> list[dict[str, Any]]:
    """One row per stage: seconds, operations; and the test accuracy, which belongs to all of them."""
    count, outputs = len(images.x_train), settings.outputs(images.classes)
    loss, integration, timing = settings.loss, settings.integration, settings.timing
    wanted = targets(images.y_train, images.classes, loss)
    gram, gram_time = timed(lambda: regime.kernel(images.x_train, None), timing)
    gram_operations = regime.operations(count, count, True)
    begin = regime.start(images.x_train)

    def flow() -> KernelFlowResult:
        return integrate(
            _symmetric(gram),
            wanted,
            loss=loss,
            steps=integration.steps,
            step_share=integration.step_share,
            start=begin,
        )

    fitted, flow_time = timed(flow, timing)
    offset = regime.start(images.x_test)

    def infer() -> NDArray[np.float64]:
        added = regime.kernel(images.x_test, images.x_train) @ fitted.coefficients
        return added if offset is None else added + offset

    values, inference_time = timed(infer, timing)
    tests = len(images.x_test)
    inference_operations = regime.operations(tests, count, False) + 2.0 * tests * count * outputs
    accuracy = float(np.mean(predicted_classes(values, loss) == images.y_test))
    shared = {
        "test_images": tests,
        "accuracy": accuracy,
        "train_loss": fitted.loss,
        "method": getattr(regime, "method", ""),
    }
    stages = (
        (GRAM, gram_time, gram_operations),
        (INTEGRATION, flow_time, 2.0 * integration.steps * count**2 * outputs),
        (INFERENCE, inference_time, inference_operations),
    )
    return [{"stage": stage, **vars(spent), "operations": operations, **shared} for stage, spent, operations in stages]


def _symmetric(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    return (gram + gram.T) / 2

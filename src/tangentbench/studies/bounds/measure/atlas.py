"""The atlas: where, in nonlinearity and in dimension over examples, the bound can say anything at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from tangentbench.studies.registry import Context, study
from tangentbench.theory.nearly_linear import Setting, learning_time, upsilon
from tangentbench.theory.nearly_linear import delta as delta_of


@study("bounds_atlas")
def atlas(
    context: Context,
    *,
    depth: int,
    dimension: int,
    beta: float,
    rho: float,
    s: float,
    delta: float,
    kappas: Sequence[int],
    precisions: Sequence[int],
    qs: Sequence[float],
    clearance: float,
    epsilon_range: Sequence[float],
    ratio_range: Sequence[float],
    points: int,
) -> pd.DataFrame:
    """The a-priori `gap` on a grid of epsilon and d/m, and `room` = 0.5 - gap for the train margin risk.

    `largest_epsilon` is the largest with room at the row's d/m, none where there is no room at all.

    It is taken when the output of the linear network has grown until it is `clearance` times the margin beta^L/q, for
    the q that gives the smallest gap: by then hardly an example that is classified rightly misses the margin.
    """
    epsilons = np.geomspace(epsilon_range[0], epsilon_range[1], points)
    ratios = np.geomspace(ratio_range[0], ratio_range[1], points)
    margins = beta**depth / np.asarray(qs, dtype=float)
    times = [learning_time(clearance * margin / s, beta, s, depth) for margin in margins]
    rows = []
    for kappa, epsilon in product(kappas, epsilons):
        # neither the deviation nor the best q depends on the number of examples
        outputs_moved = delta_of(kappa, dimension, times, Setting(depth, epsilon, beta, rho, s)) * epsilon**kappa
        deviations = outputs_moved / margins
        best = int(np.argmin(deviations))
        for precision, ratio in product(precisions, ratios):
            proxy_gap = upsilon(kappa, precision, dimension, round(dimension / ratio), delta)
            gap = proxy_gap + float(deviations[best])
            rows.append(
                {
                    "kappa": kappa,
                    "precision": precision,
                    "epsilon": epsilon,
                    "ratio": ratio,
                    "q": qs[best],
                    "upsilon": proxy_gap,
                    "deviation": float(deviations[best]),
                    "gap": gap,
                    "room": 0.5 - gap,
                }
            )
    table = pd.DataFrame(rows)
    usable = table["epsilon"].where(table["room"] > 0)
    table["largest_epsilon"] = usable.groupby([table["kappa"], table["precision"], table["ratio"]]).transform("max")
    return table

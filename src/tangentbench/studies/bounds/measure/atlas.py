"""The atlas: where, in nonlinearity and in dimension over examples, the bound can say anything at all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from tangentbench.studies.bounds.settings import Atlas
from tangentbench.studies.registry import Context, study
from tangentbench.theory.nearly_linear import Setting, delta, learning_time, upsilon


@study("bounds_atlas")
def atlas(context: Context, settings: Atlas) -> pd.DataFrame:
    """The a-priori `gap` on a grid of epsilon and d/m, and `room` = 0.5 - gap for the train margin risk.

    `largest_epsilon` is the largest with room at the row's d/m, none where there is no room at all.

    It is taken when the output of the linear network has grown until it is `clearance` times the margin beta^L/q, for
    the q that gives the smallest gap: by then hardly an example that is classified rightly misses the margin.
    """
    epsilons, ratios = (np.geomspace(*ends, settings.points) for ends in (settings.epsilon_range, settings.ratio_range))
    depth, beta, dimension = settings.depth, settings.beta, settings.dimension
    margins = beta**depth / np.asarray(settings.qs, dtype=float)
    times = [learning_time(settings.clearance * margin / settings.s, beta, settings.s, depth) for margin in margins]
    rows = []
    for kappa, epsilon in product(settings.kappas, epsilons):
        # neither the deviation nor the best q depends on the number of examples
        setting = Setting(depth, epsilon, beta, settings.rho, settings.s)
        deviations = delta(kappa, dimension, times, setting) * epsilon**kappa / margins
        best = int(np.argmin(deviations))
        for precision, ratio in product(settings.precisions, ratios):
            samples = round(dimension / ratio)
            proxy_gap = upsilon(kappa, precision, dimension, samples, settings.failure_probability)
            gap = proxy_gap + float(deviations[best])
            rows.append(
                {
                    "kappa": kappa,
                    "precision": precision,
                    "epsilon": epsilon,
                    "ratio": ratio,
                    "q": settings.qs[best],
                    "upsilon": proxy_gap,
                    "deviation": float(deviations[best]),
                    "gap": gap,
                    "room": 0.5 - gap,
                }
            )
    return _with_largest_epsilon(pd.DataFrame(rows))


def _with_largest_epsilon(table: pd.DataFrame) -> pd.DataFrame:
    usable = table["epsilon"].where(table["room"] > 0)
    table["largest_epsilon"] = usable.groupby([table["kappa"], table["precision"], table["ratio"]]).transform("max")
    return table

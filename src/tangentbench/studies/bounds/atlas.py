"""The atlas: where, in nonlinearity and in dimension over examples, the bound can say anything at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from tangentbench.registry import Context, study
from tangentbench.theory.nearly_linear import Setting, bound, learning_time


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
    rows = []
    for kappa, precision, epsilon, ratio in product(kappas, precisions, epsilons, ratios):
        parts = [
            bound(
                learning_time(clearance / q * beta**depth / s, beta, s, depth),
                Setting(depth, epsilon, beta, rho, s),
                kappa=kappa,
                dimension=dimension,
                samples=round(dimension / ratio),
                precision=precision,
                confidence=delta,
                gamma=beta**depth / q,
            )
            for q in qs
        ]
        best = int(np.argmin([float(one.gap) for one in parts]))
        rows.append(
            {
                "kappa": kappa,
                "precision": precision,
                "epsilon": epsilon,
                "ratio": ratio,
                "q": qs[best],
                "upsilon": parts[best].upsilon,
                "deviation": float(parts[best].deviation),
                "gap": float(parts[best].gap),
                "room": 0.5 - float(parts[best].gap),
            }
        )
    table = pd.DataFrame(rows)
    usable = table["epsilon"].where(table["room"] > 0)
    table["largest_epsilon"] = usable.groupby([table["kappa"], table["precision"], table["ratio"]]).transform("max")
    return table

"""What the panels of Figures A.1 to A.7 share: the width's axis, and which limits stand clear of their noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tangentbench.studies.style import log_axis, value_ticks

NOISE = 2.0
"""A distance in the limit is drawn where it is this many standard errors."""


def width_axes(axis: Axes, widths: pd.Series, turned: bool = False) -> None:
    """Both axes logarithmic, with a tick at every width; `turned` where there are many."""
    log_axis(axis, "x", base=2)
    log_axis(axis, "y")
    value_ticks(axis, "x", widths.astype(float))
    axis.tick_params(axis="x", labelsize=8, labelrotation=45 if turned else 0)
    axis.set_xlabel("width $n$")


def clear_of_noise(distances: pd.Series) -> float | None:
    """The mean of several estimates, or None where it may as well be zero."""
    if len(distances) < 2:
        return None
    mean, error = float(distances.mean()), float(distances.std(ddof=1)) / np.sqrt(len(distances))
    return mean if mean > NOISE * error else None

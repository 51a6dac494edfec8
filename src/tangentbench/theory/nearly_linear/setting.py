"""What the theorem starts from: the network's and the data's numbers, and how its text is read."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from tangentbench.errors import TangentbenchError, UnknownName


class OutOfRange(TangentbenchError):
    """A number for which the theorem says nothing."""

    def __init__(self, name: str, value: float, allowed: str) -> None:
        super().__init__(f"{name} = {value:g} is outside the theorem's range: give {name} {allowed}")


@dataclass(frozen=True)
class Reading:
    """How the theorem is read where its two statements and its proof differ; the first value of each is derived."""

    beta_bar: str = "factor"
    """`factor`: beta s_rho/s_1, where the ODE (6.38) starts; `power`: the quotient as exponent, as (6.5.2) prints."""
    stable_rank: str = "linear"
    """s_r takes r itself, as the proof (D.37) does; `root`: its square root, as both statements print."""
    w_start: str = "beta_bar"
    """v is zero at t = 0, where u = beta-bar; `beta`: subtract w(beta), as printed."""
    w_factor: str = "one_bar_over_s_bar"
    """Of w's first term: (6.11)'s; `one_over_s_bar`: (1.103)'s; `one_bar_over_s_hat`: (D.54)'s."""
    rank_factor: str = "dropped"
    """`dropped`: the ODEs (6.40), (D.48) as they stand; `kept`: with the factor rho that (D.20) and (D.46) have and the
    next line loses. Only `kept` follows from the proof where rho > 1."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) not in READINGS[field.name]:
                raise UnknownName(f"reading of {field.name}", getattr(self, field.name), READINGS[field.name])


READINGS = {
    "beta_bar": ("factor", "power"),
    "stable_rank": ("linear", "root"),
    "w_start": ("beta_bar", "beta"),
    "w_factor": ("one_bar_over_s_bar", "one_over_s_bar", "one_bar_over_s_hat"),
    "rank_factor": ("dropped", "kept"),
}

DERIVED = Reading()
"""The exact solution of the thesis's own differential equations."""
MENDED = Reading(rank_factor="kept")
"""The same with the factor rho that the proof loses."""
PRINTED_CHAPTER_6 = Reading(beta_bar="power", stable_rank="root", w_start="beta")
PRINTED_CHAPTER_1 = Reading(stable_rank="root", w_start="beta", w_factor="one_over_s_bar")


@dataclass(frozen=True)
class Setting:
    """The numbers the growth of the weights depends on."""

    depth: int
    """L, layers of weights."""
    epsilon: float
    """The leaky ReLU's slope on the negative side is 1 - epsilon."""
    beta: float
    """The largest spectral norm of a layer at the start."""
    rho: float
    """||W_1||_F / ||W_1|| at the start, the root of the input layer's stable rank."""
    s: float
    """||Y X~^T|| / m, the norm of the best linear model on whitened data."""

    def __post_init__(self) -> None:
        if self.depth < 2:
            raise OutOfRange("depth", self.depth, "of at least 2")
        if not 0 <= self.epsilon <= 1:
            raise OutOfRange("epsilon", self.epsilon, "between 0 and 1")
        if not (self.beta > 0 and np.isfinite(self.beta)):
            raise OutOfRange("beta", self.beta, "above 0")
        if not (self.rho >= 1 and np.isfinite(self.rho)):
            raise OutOfRange("rho", self.rho, "of at least 1 (it is a Frobenius norm over a spectral norm)")
        if not 0 < self.s <= 1:
            raise OutOfRange("s", self.s, "above 0 and at most 1 (labels are -1 and 1)")

    @property
    def one_bar(self) -> float:
        """1 + rho beta^L: bounds the root of twice the loss (lemma 6.7.4)."""
        return 1.0 + self.rho * self.beta**self.depth

    def s_bar_at(self, r: float, reading: Reading = DERIVED) -> float:
        """s-bar_r = (1 - eps)(s + rho beta^L) + eps r (L - 1)(1 + rho beta^L)."""
        rank = np.sqrt(r) if reading.stable_rank == "root" else r
        projected = self.s + self.rho * self.beta**self.depth
        return float((1 - self.epsilon) * projected + self.epsilon * rank * (self.depth - 1) * self.one_bar)

    @property
    def s_bar(self) -> float:
        """s-bar = s-bar_1, the rate at which the bound on the weights grows."""
        return self.s_bar_at(1.0)

    @property
    def s_hat(self) -> float:
        """L s-bar / (1 + (L - 1) rho)."""
        return self.depth * self.s_bar / (1 + (self.depth - 1) * self.rho)

    def beta_bar(self, reading: Reading = DERIVED) -> float:
        """Where the bound on the weights starts."""
        ratio = self.s_bar_at(self.rho, reading) / self.s_bar
        return float(self.beta**ratio if reading.beta_bar == "power" else self.beta * ratio)


def root_stable_rank(weights: ArrayLike) -> float:
    """rho = ||W||_F / ||W|| of a matrix."""
    matrix = np.asarray(weights, dtype=float)
    return float(np.linalg.norm(matrix) / np.linalg.norm(matrix, 2))


def signal(inputs: ArrayLike, labels: ArrayLike) -> float:
    """s = ||Y X~^T|| / m for whitened inputs (m, d) and labels (m,) of -1 and 1 (section 6.5.3: at most one).

    The definition in the theorem prints no 1/m; the proof (D.12) and section 6.5.3 have it.
    """
    x, y = np.asarray(inputs), np.asarray(labels, dtype=float)
    return float(np.linalg.norm(y @ x) / len(y))

"""What is measured of runs: curves over the epochs, and the numbers that summarise a whole run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tangentbench.training.loop import Trained

TRAIN_ACCURACY, TEST_ACCURACY, TRAIN_LOSS = "train accuracy", "test accuracy", "train loss"
DOT_PRODUCT = "mean dot product"

RUN_QUANTITIES = (
    "last test accuracy",
    "best test accuracy",
    "last train accuracy",
    "epochs to level",
    "rank correlation",
)


def history_rows(trained: Trained) -> pd.DataFrame:
    """One row per quantity, run (`seed`) and epoch; accuracies in percent."""
    measures: Mapping[str, tuple[pd.DataFrame, str, float]] = {
        TRAIN_ACCURACY: (trained.history, "train_accuracy", 100.0),
        TEST_ACCURACY: (trained.history, "test_accuracy", 100.0),
        TRAIN_LOSS: (trained.history, "train_loss", 1.0),
        DOT_PRODUCT: (trained.measured, "dot_product", 1.0),
    }
    frames = [
        pd.DataFrame(
            {"quantity": quantity, "seed": table["run"], "epoch": table["epoch"], "value": factor * table[column]}
        )
        for quantity, (table, column, factor) in measures.items()
    ]
    return pd.concat(frames, ignore_index=True)


def run_rows(rows: pd.DataFrame, train_level: float, chance: float) -> pd.DataFrame:
    """One row per run and quantity of `RUN_QUANTITIES`, from the rows of one training."""
    about = rows.iloc[0][["network", "normalisation", "training"]].to_dict()
    found = []
    for seed, own in rows.dropna(subset=["epoch"]).groupby("seed", sort=True):
        curves = own.pivot(index="epoch", columns="quantity", values="value").sort_index()
        values = run_summary(curves, train_level, chance)
        rate = own["step_size"].iloc[0]
        found += [
            {**about, "seed": seed, "step_size": rate, "quantity": name, "value": value}
            for name, value in values.items()
        ]
    return pd.DataFrame(found)


def run_summary(curves: pd.DataFrame, train_level: float, chance: float) -> dict[str, float]:
    """`curves` has one row per epoch and one column per quantity."""
    trained = curves.loc[curves.index > 0]
    train, test = trained[TRAIN_ACCURACY].to_numpy(), trained[TEST_ACCURACY].to_numpy()
    return {
        "last test accuracy": float(test[-1]),
        "best test accuracy": float(test.max()),
        "last train accuracy": float(train[-1]),
        "epochs to level": epochs_to_reach(train, train_level, chance),
        "rank correlation": _rank_correlation(trained[TEST_ACCURACY], trained[DOT_PRODUCT]),
    }


def epochs_to_reach(accuracies: np.ndarray, level: float, chance: float) -> float:
    """Epochs until the train accuracy (percent, after epochs 1, 2, ...) first reaches `level`.

    It is interpolated linearly between epochs and starts at `chance`. A run that never reaches the level counts with
    one epoch more than it had.
    """
    above = np.flatnonzero(accuracies >= level)
    if not len(above):
        return float(len(accuracies) + 1)
    first = int(above[0])
    before = accuracies[first - 1] if first else chance
    share = 1.0 if accuracies[first] <= before else (level - before) / (accuracies[first] - before)
    return float(first + max(share, 0.0))


def _rank_correlation(one: pd.Series, other: pd.Series) -> float:
    """Spearman's; not a number where one of the two is constant."""
    if min(one.nunique(), other.nunique()) < 2:
        return float("nan")
    return float(one.corr(other, method="spearman"))

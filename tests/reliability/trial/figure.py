"""Plain pictures of both tables."""

from typing import Any

from matplotlib.figure import Figure

from tangentbench.studies.registry import figure


@figure("trial_training")
def losses(table: Any, artifact: Any) -> Any:
    return drawn(table, "epoch", "train_loss")


@figure("trial_gram")
def spectrum(table: Any, artifact: Any) -> Any:
    return drawn(table, "index", "eigenvalue")


def drawn(table: Any, x: Any, y: Any) -> Any:
    picture = Figure(figsize=(3, 2), layout="constrained")
    axes = picture.subplots()
    axes.plot(table[x], table[y], ".")
    axes.set(xlabel=x, ylabel=y)
    return picture

"""Plain pictures of both tables."""

from matplotlib.figure import Figure

from tangentbench.studies.registry import figure


@figure("trial_training")
def losses(table, artifact):
    return drawn(table, "epoch", "train_loss")


@figure("trial_gram")
def spectrum(table, artifact):
    return drawn(table, "index", "eigenvalue")


def drawn(table, x, y):
    picture = Figure(figsize=(3, 2), layout="constrained")
    axes = picture.subplots()
    axes.plot(table[x], table[y], ".")
    axes.set(xlabel=x, ylabel=y)
    return picture

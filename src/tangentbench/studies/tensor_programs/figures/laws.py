"""What the laws of weights are called in legends."""

from __future__ import annotations

LABELS = {
    "gaussian": "Gaussian",
    "gaussian_again": "Gaussian again",
    "truncated_gaussian": "truncated Gaussian",
    "laplace": "Laplace",
}


def label_of(law: str) -> str:
    return LABELS.get(law, law.replace("_", " "))

"""The activations that a depth study compares, as their settings name them."""

from __future__ import annotations

from tangentbench.studies.conditioning.settings import ActivationFamilies
from tangentbench.theory.activations import Activation, activation_from_setting
from tangentbench.theory.duals import normalised, scaled

NORMALISED, UNCENTRED = "normalised", "uncentred"


def activation_families(settings: ActivationFamilies) -> list[tuple[str, Activation]]:
    """Pairs (family, activation): normalised ones, then those only scaled to unit variance."""
    return [
        *((NORMALISED, normalised(activation_from_setting(setting))) for setting in settings.activations),
        *((UNCENTRED, scaled(activation_from_setting(setting))) for setting in settings.uncentred_activations),
    ]

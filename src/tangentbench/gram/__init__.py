"""Gram matrices on disk: planned, cut into tiles, filled by any number of processes, certified."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tangentbench.gram.certificate import certify, read_certificate
    from tangentbench.gram.store import Gram

__all__ = ["Gram", "certify", "read_certificate"]

# Snakemake and every job read the plans of this package; what computes matrices is imported when it is asked for.
_ON_DEMAND = {
    "Gram": ("store", "Gram"),
    "certify": ("certificate", "certify"),
    "read_certificate": ("certificate", "read_certificate"),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _ON_DEMAND[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)

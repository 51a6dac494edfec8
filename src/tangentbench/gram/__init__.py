"""Gram matrices on disk: planned, cut into tiles, filled by any number of processes, certified."""

from tangentbench.gram.certificate import certify, read_certificate
from tangentbench.gram.store import Gram

__all__ = ["Gram", "certify", "read_certificate"]

"""tangentbench: a reproducible benchmark suite for the theory of wide, deep and gated networks."""

__version__ = "0.1.0"

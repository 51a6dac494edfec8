"""Claims: what the papers say, measured."""

from tangentbench.claims.decision import FAILED, HELD, NOT_RUN, NOT_TESTABLE, STATES, Verdict, decide
from tangentbench.claims.measures import evaluate

__all__ = ["FAILED", "HELD", "NOT_RUN", "NOT_TESTABLE", "STATES", "Verdict", "decide", "evaluate"]

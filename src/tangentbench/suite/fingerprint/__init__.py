"""A fingerprint of the code behind each rule, so that Snakemake rebuilds what an edit can change, and nothing else.

It works on functions, classes and module-level names: what a rule runs, and all definitions these use (graph.py), read
from syntax trees (syntax.py); with them the C++ of compiled cores (native.py) and the versions of packages that compute
(versions.py). What cannot change a number is left out: boundary.py says what, and why.
"""

from tangentbench.suite.fingerprint.fingerprints import Fingerprints, words_in

__all__ = ["Fingerprints", "words_in"]

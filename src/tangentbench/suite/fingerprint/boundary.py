"""Where a fingerprint stops: code that a result goes through and that cannot change a number in it."""

from __future__ import annotations

from collections.abc import Mapping

BOUNDARY: Mapping[str, str] = {
    "tangentbench:__version__": "a release is no edit of what computes",
    "tangentbench.errors": "an error ends a job, it writes no number",
    "tangentbench.atomic": "whole files and locks: the bytes that arrive are those that were handed over",
    "tangentbench.identity": "whether unfinished work may be used: what is used is of the same code",
    "tangentbench.paths": "where a file is, not what is in it",
    "tangentbench.config": "settings are parameters of the rules themselves",
    "tangentbench.device:choose": "the device's name is no parameter: results stay valid when computed elsewhere",
    "tangentbench.device:on_gpu": "as above",
    "tangentbench.device:resolve": "as above; `current`, which sets TF32 and determinism, does count",
    "tangentbench.studies.modules": "finds a study's modules",
    "tangentbench.studies.registry": "finds a study's functions and hands them their inputs",
    "tangentbench.studies.settings:settings_of": "finds a record; the record itself counts",
    "tangentbench.studies.settings:settings_record": "as above",
    "tangentbench.studies.settings:read_settings": "checks settings, which are parameters of the rule",
    "tangentbench.studies.work": "prices work",
    "tangentbench.suite.catalogue": "entries of the catalogue are parameters of the rules",
    "tangentbench.suite.table_io": "carries a table to disk and back, compared by its SHA-256",
    "tangentbench.suite.provenance": "describes a run beside its result",
    "tangentbench.datasets.prepare.checksums": "compares SHA-256: what passes is what was published",
    "tangentbench.datasets.prepare.download": "fetched bytes are compared with the published SHA-256",
    "tangentbench.datasets.prepare.gather": "as above",
    "tangentbench.datasets.prepare.locate": "as above",
    "tangentbench.datasets.prepare.unpack": "unpacked bytes are compared with the published SHA-256",
    "tangentbench.datasets.prepare.recipes": "a recipe is a parameter of the rule",
    "tangentbench.datasets.prepare.readers:parameters_of": "checks a recipe",
    "tangentbench.datasets.prepare.sources": "what of a source is read is a parameter of the rule",
    "tangentbench.datasets.prepare.embedded:embedded_path": "finds a file whose SHA-256 is compared",
    "tangentbench.datasets.prepare.embedded:checked_path": "as above",
    "tangentbench.datasets.prepare.embedded:record": "describes a file for the provenance",
    "tangentbench.datasets.prepare.pipeline:origin": "describes a data set for the provenance",
    "tangentbench.gram.limits": "refuses work that does not fit into memory or on the disk",
    "tangentbench.progress": "shows bars",
}
"""A module or one of its names, and why it does not count. A class of errors never counts, wherever it is defined."""

ERRORS = "tangentbench.errors:TangentbenchError"

LOADERS: Mapping[str, str] = {
    "tangentbench.kernels:__getattr__": "its names are those of the imports under TYPE_CHECKING, which are followed",
    "tangentbench.gram:__getattr__": "the same",
    "tangentbench.studies.modules:import_if_there": "loads what registers itself; registries are followed by name",
}
"""The only functions that may import modules by strings, which a syntax tree does not show."""


def is_outside(key: str) -> bool:
    """Whether a definition, `module:name`, or its module is in the table."""
    return key in BOUNDARY or key.partition(":")[0] in BOUNDARY

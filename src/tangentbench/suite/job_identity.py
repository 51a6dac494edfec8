"""The identity of a job (tangentbench.identity), and the fingerprints of code that it and Gram stores carry."""

from __future__ import annotations

from types import SimpleNamespace

from tangentbench.atomic import sha256
from tangentbench.device import CPU, CUDA, on_gpu
from tangentbench.gram.identity import identity
from tangentbench.gram.plans import GramPlan
from tangentbench.identity import Identity
from tangentbench.suite.fingerprint import Fingerprints, words_in
from tangentbench.suite.provenance import Recorder, inside_root


def part_identity(job: Recorder) -> Identity:
    """Of a part's job, from what its provenance will say; files that go in are read for their sums."""
    return Identity(
        artifact=job.artifact,
        part=job.part or "",
        scale=job.scale,
        seed=job.seed,
        settings=job.settings,
        code=job.code or "",
        inputs={inside_root(job.root, file): sha256(file) for file in job.inputs},
        device=CUDA if on_gpu() else CPU,
    )


def study_code(scale: str, artifact: str) -> str:
    """The fingerprint that Snakemake hands to a part's job, for a job that was started by hand."""
    from tangentbench.suite.workflow import Wiring

    return Wiring.load({"scale": scale}).study_code(SimpleNamespace(artifact=artifact, scale=scale))


def tile_code(plan: GramPlan, fingerprints: Fingerprints | None = None) -> str:
    """The fingerprint of the code that computes the entries of a planned matrix."""
    return (fingerprints or Fingerprints()).step("gram_tile", words_in([plan.plan.kernel, identity(plan.plan.kernel)]))

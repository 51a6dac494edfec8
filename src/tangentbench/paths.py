"""Where the files of a checkout are.

Snakemake's rules write the same paths as patterns, and a Gram store, which is also used outside a checkout, names the
files in its own folder; a test compares both with the paths here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tangentbench.errors import NotACheckout

HOME_VARIABLE = "TANGENTBENCH_HOME"


def find_root(start: Path | None = None) -> Path:
    """The checkout: TANGENTBENCH_HOME, else the first folder at or above `start` that is one, else ours."""
    if home := os.environ.get(HOME_VARIABLE):
        candidates = [Path(home).resolve()]
    else:
        here = (start or Path.cwd()).resolve()
        candidates = [here, *here.parents, Path(__file__).resolve().parents[2]]
    for candidate in candidates:
        if Paths(candidate).settings.is_file() and Paths(candidate).studies.is_dir():
            return candidate
    raise NotACheckout(candidates[0])


@dataclass(frozen=True)
class Paths:
    """The files of one checkout, by what they are.

    A relative root (Snakemake's view, run from the checkout) and an absolute one (the command line's) both work.
    """

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def settings(self) -> Path:
        return self.config / "config.yaml"

    @property
    def studies(self) -> Path:
        """One folder per study."""
        return self.root / "src" / "tangentbench" / "studies"

    def study_catalogue(self, study: str) -> Path:
        return self.studies / study / "catalogue.yaml"

    @property
    def schemas(self) -> Path:
        return self.config / "schemas"

    @property
    def datasets(self) -> Path:
        return self.config / "datasets.yaml"

    @property
    def grams(self) -> Path:
        return self.config / "grams.yaml"

    @property
    def unit_costs(self) -> Path:
        return self.config / "unit_costs.yaml"

    @property
    def cluster(self) -> Path:
        return self.config / "cluster.yaml"

    @property
    def readme(self) -> Path:
        return self.root / "README.md"

    @property
    def dvc_pipeline(self) -> Path:
        return self.root / "dvc.yaml"

    @property
    def lock(self) -> Path:
        """The exact versions of every package."""
        return self.root / "requirements.lock"

    @property
    def environments(self) -> Path:
        """The conda environments of the rules."""
        return self.root / "envs"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def downloads(self) -> Path:
        return self.data / "downloads"

    def dataset(self, name: str) -> Path:
        return self.data / f"{name}.npz"

    def dataset_provenance(self, name: str) -> Path:
        return self.data / f"{name}.json"

    @property
    def results(self) -> Path:
        return self.root / "results"

    def scale(self, scale: str) -> Path:
        return self.results / scale

    def gallery(self, scale: str) -> Path:
        return self.scale(scale) / "index.html"

    def all_claims(self, scale: str) -> Path:
        return self.scale(scale) / "claims.json"

    def study(self, scale: str, study: str) -> Path:
        return self.scale(scale) / study

    def claims(self, scale: str, study: str) -> Path:
        return self.study(scale, study) / "claims.json"

    def table(self, scale: str, study: str, artifact: str) -> Path:
        return self.study(scale, study) / f"{artifact}.parquet"

    def csv(self, scale: str, study: str, artifact: str) -> Path:
        return self.study(scale, study) / f"{artifact}.csv"

    def provenance(self, scale: str, study: str, artifact: str) -> Path:
        return self.study(scale, study) / f"{artifact}.json"

    def figure(self, scale: str, study: str, artifact: str, kind: str = "png") -> Path:
        return self.study(scale, study) / f"{artifact}.{kind}"

    def part(self, scale: str, study: str, artifact: str, part: str) -> Path:
        return self.study(scale, study) / "parts" / artifact / f"{part}.parquet"

    def part_provenance(self, scale: str, study: str, artifact: str, part: str) -> Path:
        return self.part(scale, study, artifact, part).with_suffix(".json")

    def work(self, scale: str, study: str, artifact: str, part: str) -> Path:
        """A folder a study may keep checkpoints in; it outlives a killed job and is removed after a finished one."""
        return self.study(scale, study) / "work" / artifact / part

    def part_lock(self, scale: str, study: str, artifact: str, part: str) -> Path:
        """Held by the process that computes a part."""
        return self.study(scale, study) / "work" / artifact / f"{part}.lock"

    def gram_inputs(self, scale: str, inputs: str, matrix: str) -> Path:
        """Prepared images as one plain array that every tile's job maps."""
        return self.scale(scale) / "gram_inputs" / inputs / f"{matrix}.npy"

    def gram(self, scale: str, inputs: str, kernel: str) -> Path:
        """The stores `train` and `test` of one kernel (gram/identity.py) on some images."""
        return self.scale(scale) / "grams" / inputs / kernel

    def gram_store(self, scale: str, inputs: str, kernel: str, matrix: str) -> Path:
        return self.gram(scale, inputs, kernel) / matrix

    def gram_manifest(self, scale: str, inputs: str, kernel: str, matrix: str) -> Path:
        return self.gram_store(scale, inputs, kernel, matrix) / "gram.json"

    def gram_tile(self, scale: str, inputs: str, kernel: str, matrix: str, tile: str) -> Path:
        return self.gram_store(scale, inputs, kernel, matrix) / "tiles" / f"{tile}.npy"

    def gram_certificate(self, scale: str, inputs: str, kernel: str, matrix: str) -> Path:
        return self.gram_store(scale, inputs, kernel, matrix) / "certificate.json"

    @property
    def run_lock(self) -> Path:
        """Held by a `tangentbench run`."""
        return self.root / ".snakemake" / "tangentbench.lock"

    @property
    def snakemake_locks(self) -> Path:
        return self.root / ".snakemake" / "locks"

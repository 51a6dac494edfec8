"""Which data sets a part needs: those of its artifact, or those that the study chooses for the part's settings."""

from __future__ import annotations

from tangentbench.errors import TangentbenchError
from tangentbench.studies.registry import on_settings
from tangentbench.studies.settings import dataset_choice
from tangentbench.suite.catalogue import Artifact


def part_datasets(artifact: Artifact, scale: str, part: str) -> tuple[str, ...]:
    """The names, in the order of the catalogue; a choice of the study may leave some of the artifact's out."""
    named = artifact.datasets_at(scale)
    choice = dataset_choice(artifact.study, artifact.name)
    if choice is None:
        return named
    needed = on_settings(choice, artifact, artifact.parts_at(scale)[part], named)
    if unknown := sorted(set(needed) - set(named)):
        raise TangentbenchError(
            f"{artifact.name} chooses the data set {', '.join(unknown)} for its part {part}, which its catalogue entry "
            f"does not name at scale {scale}: add it to `datasets`"
        )
    return tuple(name for name in named if name in needed)

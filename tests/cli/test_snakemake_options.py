"""What `run --snakemake` hands on: a user's --config is joined with ours or refused, never dropped."""

from __future__ import annotations

import pytest

from tangentbench.cli.run import snakemake_options
from tangentbench.errors import TangentbenchError


@pytest.mark.parametrize("given", ["--config seed=7 --forceall", "--forceall -C seed=7", "--config=seed=7 --forceall"])
def test_a_users_config_stays(given: str) -> None:
    assert snakemake_options(given, "quick") == ["--forceall", "--config", "scale=quick", "seed=7"]


@pytest.mark.parametrize(
    "given, said", [("--config scale=cpu", "give it with --scale"), ("--x 'a", "close every quote")]
)
def test_what_cannot_be_joined_is_refused(given: str, said: str) -> None:
    with pytest.raises(TangentbenchError, match=said):
        snakemake_options(given, "quick")

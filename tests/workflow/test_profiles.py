"""The rules and the profiles fit together: read as text, nothing runs."""

from __future__ import annotations

import re

import pytest
import yaml
from small_project import ROOT

RULES = {
    match["name"]: match["body"]
    for file in sorted((ROOT / "workflow/rules").glob("*.smk"))
    for match in re.finditer(r"^rule (?P<name>\w+):\n(?P<body>(?:    .*\n|\n)+)", file.read_text("utf-8"), re.MULTILINE)
}
SLURM = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text("utf-8"))


def test_rules_are_found() -> None:
    assert {"dataset", "measure", "table", "figure", "claims", "gallery", "gram_tile"} <= set(RULES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_that_uses_threads_asks_for_them(name: str) -> None:
    body = RULES[name]
    assert ("{threads}" in body) == ("\n    threads:" in body)


@pytest.mark.parametrize("name", ["measure", "gram_tile", "gram_certificate"])
def test_long_work_asks_for_its_estimate(name: str) -> None:
    kind = {"measure": "part", "gram_tile": "tile", "gram_certificate": "certificate"}[name]
    for resource, amount in (("mem_mb", "memory_mb"), ("runtime", "minutes")):
        asked = re.search(rf"{resource}=lambda.*?wiring\.{kind}\(wildcards\)\.{amount}", RULES[name], re.DOTALL)
        assert asked, f"{name} does not ask for its {resource}"


def test_groups_name_rules() -> None:
    assert {entry.partition("=")[0] for entry in SLURM["groups"]} <= set(RULES)
    overridden = [
        rule for rule in ("measure", "gram_tile") if rule in {entry.split("=")[0] for entry in SLURM["groups"]}
    ]
    assert not overridden, "their groups depend on the estimate, which stands in the rule"


def test_small_work_is_grouped() -> None:
    assert {entry.partition("=")[0] for entry in SLURM["group-components"]} == {"small_part", "small_tile"}
    for rule, name in (("measure", "small_part"), ("gram_tile", "small_tile")):
        assert f'"{name}" if wiring' in RULES[rule]

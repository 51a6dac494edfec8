"""config/datasets.yaml: what it must hold, and what is said when it does not."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tangentbench.datasets.prepare import availability, load_recipes, load_sources
from tangentbench.errors import InvalidConfig
from tangentbench.paths import Paths

RECIPES = {
    "mnist",
    "fashion_mnist",
    "cifar10",
    "stl10",
    "mnist5k",
    "photographs",
    "mnist_binary_7x7",
    "mnist_binary_14x14",
    "mnist_binary_28x28",
    "mnist5k_binary_7x7",
    "mnist5k_binary_14x14",
    "mnist5k_binary_28x28",
    "mnist_4v7",
    "mnist5k_4v7",
    "cifar2",
    "photographs2",
    "cifar10_4x4",
    "sphere_pairs",
    "teacher_50_10",
}


def test_the_recipes_are_there(checkout: Paths) -> None:
    recipes = load_recipes(checkout)
    assert set(recipes) >= RECIPES
    assert all(re.fullmatch("[a-z][A-Za-z0-9_]*", name) for name in recipes)
    assert recipes["cifar2"].transforms == (("classes", {"keep": ["airplane", "automobile"]}),)


def test_a_recipe_carries_the_parameters_of_its_source(checkout: Paths) -> None:
    assert load_recipes(checkout)["photographs2"].parameters["side"] == 32


def test_every_file_of_a_publisher_has_a_sha256(checkout: Paths) -> None:
    for source in load_sources(checkout).values():
        for archive in source.archives.values():
            assert archive.algorithm == "sha256"
        for content in source.contents.values():
            assert content.published.algorithm == ("md5" if source.name == "stl10" else "sha256")


def test_without_mirror_only_embedded_data_are_here(checkout: Paths, tmp_path: Any) -> None:
    (tmp_path / "config").symlink_to(checkout.config)
    records = {record.name: record for record in availability(Paths(tmp_path), None)}
    states = {name: record.state for name, record in records.items()}
    embedded = {"mnist5k", "photographs", "sphere_pairs", "teacher"}
    assert {name for name, state in states.items() if state == "embedded"} == embedded
    assert {name for name, state in states.items() if state == "missing"} == set(states) - embedded
    assert records["cifar10"].as_record() == {
        "name": "cifar10",
        "title": "CIFAR-10 colour photographs, binary version",
        "state": "missing",
        "where": "https://www.cs.toronto.edu/~kriz/",
        "missing": ["cifar-10-binary.tar.gz"],
        "bytes": 170052171,
        "datasets": ["cifar10", "cifar2", "cifar10_4x4"],
    }


def test_importing_the_room_is_light() -> None:
    heavy = "{'torch', 'jax', 'pandas', 'skimage', 'sklearn', 'mlxtend', 'scipy', 'requests', 'PIL'}"
    code = f"import sys, tangentbench.datasets; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def edit_source(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(configuration: dict[str, Any]) -> None:
        configuration["sources"]["digits"].update(changes)

    return change


def edit_dataset(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(configuration: dict[str, Any]) -> None:
        configuration["datasets"]["digits"].update(changes)

    return change


def break_content(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(configuration: dict[str, Any]) -> None:
        contents = copy.deepcopy(configuration["sources"]["digits"]["contents"])
        contents["train-images"][key] = value
        configuration["sources"]["digits"]["contents"] = contents

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit_source(colour="red"), r"sources\.digits: unknown key colour"),
        (edit_source(format="jpeg"), r"sources\.digits\.format: 'jpeg' is not one of"),
        (edit_source(addresses=["ftp://x/"]), r"sources\.digits\.addresses\.0"),
        (edit_source(folders=["../up"]), r"sources\.digits\.folders\.0"),
        (break_content("sha256", "abc"), r"sources\.digits\.contents\.train-images\.sha256: 'abc' does not match"),
        (break_content("bytes", -1), r"contents\.train-images\.bytes: -1 is less than"),
        (break_content("archive", "other.gz"), r"train-images\.archive: there is no archive 'other.gz'"),
        (edit_dataset(source="digit"), r"datasets\.digits\.source: there is no source 'digit' \(there are: digits"),
        (edit_dataset(transforms=[{"whitten": {}}]), r"datasets\.digits\.transforms\.0: unknown key whitten \(allowed"),
        (edit_dataset(transforms=[{"downsample": {"side": "7"}}]), r"downsample\.side: '7' is not of type 'integer'"),
        (edit_dataset(transforms=[{"downsample": {}}]), r"transforms\.0\.downsample: 'side' is a required property"),
        (edit_dataset(parameters={"side": 3}), r"datasets\.digits\.parameters: side is missing or unknown"),
    ],
)
def test_mistakes_name_file_key_and_reason(small: Any, change: Any, message: str) -> None:
    small.configure(change)
    with pytest.raises(InvalidConfig, match=rf"config/datasets\.yaml at .*{message}"):
        load_recipes(small.paths)


def test_a_name_with_a_dash_is_refused(small: Any) -> None:
    def change(configuration: dict[str, Any]) -> None:
        configuration["datasets"]["my-set"] = {"source": "digits", "description": "mine"}

    small.configure(change)
    with pytest.raises(InvalidConfig, match="'my-set' does not match"):
        load_recipes(small.paths)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sources: [", "not valid YAML"),
        ("", "the top level"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("sources: {}\n", "datasets"),
    ],
)
def test_malformed_yaml(small: Any, text: str, reason: str) -> None:
    small.paths.datasets.write_text(text)
    with pytest.raises(InvalidConfig, match=reason):
        load_recipes(small.paths)


def test_a_missing_file(small: Any) -> None:
    small.paths.datasets.unlink()
    with pytest.raises(InvalidConfig, match="the file is missing"):
        load_recipes(small.paths)


def test_the_documentation_names_every_data_set_and_transform(checkout: Paths) -> None:
    text = (checkout.root / "docs" / "data.md").read_text()
    schema = yaml.safe_load((checkout.schemas / "datasets.schema.json").read_text())
    for name in [*load_recipes(checkout), *load_sources(checkout), *schema["$defs"]["transform"]["properties"]]:
        assert f"`{name}`" in text, name


def test_the_example_of_the_documentation_is_a_valid_recipe(checkout: Paths, small: Any) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (checkout.root / "docs" / "data.md").read_text(), re.DOTALL)
    text = checkout.datasets.read_text()
    small.paths.datasets.write_text(f"{text}\n{example}")
    recipe = load_recipes(small.paths)["cifar10_grey_500"]
    assert recipe.transforms == (("subset", {"train": 50, "test": 50}), ("grey", {}))

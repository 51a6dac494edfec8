"""Building and running images without a Docker engine: buildah with chroot isolation and podman with runc, as root.

Everything lies in one folder: the image store, the engines' settings, a base image made with mmdebstrap, and the host's
settings for its package index. Those are mounted while the image is built and never become part of it.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("buildah", "podman", "runc", "mmdebstrap")
BASE = "localhost/base:bookworm"
IMAGE = "localhost/tangentbench:test"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""What the image under test is told it was built from."""
SUITE = "bookworm"
STORE_VARIABLE = "TANGENTBENCH_IMAGE_STORE"
"""A folder that keeps layers from one test run to the next; without it everything is built anew and removed."""
INDEX_SETTINGS = ("index-url", "extra-index-url", "find-links", "trusted-host", "proxy", "timeout")
BUILD_TIMEOUT_SECONDS = 1500
CAP_SYS_ADMIN = 21
MOUNTED_SETTINGS = "/run/hostcfg"


def missing_tools() -> str:
    """Why no image can be built here; empty where one can."""
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(absent)}: `apt-get install buildah podman runc mmdebstrap fuse-overlayfs`"
    if os.geteuid() != 0:
        return "chroot isolation and mmdebstrap need root here"
    if not may_mount():
        return "needs the right to mount file systems (CAP_SYS_ADMIN): a container of CI must be privileged"
    return ""


def may_mount() -> bool:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return capabilities is not None and bool(int(capabilities.group(1), 16) >> CAP_SYS_ADMIN & 1)


@dataclass(frozen=True)
class Engine:
    """buildah and podman on a store of their own."""

    folder: Path

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        graph, run = self.folder / "graph", self.folder / "run"
        storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{graph}"\nrunroot = "{run}"\n'
        (self.folder / "storage.conf").write_text(storage, encoding="utf-8")
        (self.folder / "containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\nnetns = "host"\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n',
            encoding="utf-8",
        )
        # A policy of the store's own: the system's may be missing, and only local images are used.
        (self.folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}', encoding="utf-8")

    def call(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "TMPDIR": str(self.folder),
        }
        return subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    def must(self, *words: str, timeout: float = 300) -> str:
        done = self.call(*words, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def make_base(self) -> None:
        """A minimal Debian from the mirror of the host's own apt sources."""
        if self.call("podman", "image", "exists", BASE).returncode == 0:
            return
        archive = self.folder / "base.tar"
        fast = ["--dpkgopt=force-unsafe-io", "--aptopt=Acquire::Languages none"]
        self.must("mmdebstrap", "--variant=minbase", *fast, SUITE, str(archive), *debian_mirror(), timeout=900)
        self.must("podman", "import", "--quiet", str(archive), BASE)
        archive.unlink()

    def build(self, **arguments: str) -> None:
        """The project's Dockerfile with these build arguments, on the base above."""
        given = {"BASE_IMAGE": BASE, "LOCKS": "requirements.lock", **arguments}
        options = [word for name, value in given.items() for word in ("--build-arg", f"{name}={value}")]
        mounts = [word for mount in index_mounts(self.folder / "hostcfg") for word in ("-v", mount)]
        self.must(
            *("buildah", "bud", "--isolation", "chroot", "--layers", "--jobs", "2", "--signature-policy"),
            *(str(self.folder / "policy.json"), *options, *mounts, "-t", IMAGE, "."),
            timeout=BUILD_TIMEOUT_SECONDS,
        )

    def run(self, *words: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return self.call("podman", "run", "--rm", *options, IMAGE, *words)

    def remove(self) -> None:
        self.call("podman", "rmi", "--all", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)


def debian_mirror() -> list[str]:
    """The first Debian archive that the host's apt uses; none leaves the choice to mmdebstrap."""
    for file in [*sorted(Path("/etc/apt").glob("sources.list*/**/*")), Path("/etc/apt/sources.list")]:
        if not file.is_file():
            continue
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("URIs:", "deb ")) and (found := re.search(r"\bhttps?://\S*/debian/?(?=\s|$)", line)):
                return [found.group()]
    return []


def host_index_settings() -> dict[str, list[str]]:
    """What the host's pip says of its index: files, variables and command line count as pip counts them."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        setting = name.rpartition(".")[2]
        if setting in INDEX_SETTINGS:
            words = value.strip("'\"").split()
            found[setting] = [*found.get(setting, []), *(word for word in words if word not in found.get(setting, []))]
    return found


def index_mounts(folder: Path) -> list[str]:
    """Write the host's certificates and pip settings into `folder`; the mounts that a build needs to use them."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = host_index_settings()
    written = {name: "\n".join(values) for name, values in settings.items()}
    if certificates := host_certificates():
        shutil.copyfile(certificates, folder / "ca.crt")
        written["cert"] = f"{MOUNTED_SETTINGS}/ca.crt"
    parser = configparser.ConfigParser(interpolation=None)
    parser["global"] = written
    with (folder / "pip.conf").open("w", encoding="utf-8") as file:
        parser.write(file)
    folders = [local_folder(word) for name in ("find-links", "extra-index-url") for word in settings.get(name, [])]
    mounted = {str(one) for one in folders if one is not None}
    return [f"{folder}:{MOUNTED_SETTINGS}:ro", f"{folder}/pip.conf:/etc/pip.conf:ro"] + [
        f"{one}:{one}:ro" for one in sorted(mounted)
    ]


def local_folder(address: str) -> Path | None:
    """The folder behind a path or file address; an index's own folder holds its files beside the pages."""
    path = Path(address.removeprefix("file://"))
    if not path.is_absolute() or not path.is_dir():
        return None
    return path.parent if path.name == "simple" else path


def host_certificates() -> Path | None:
    named = [os.environ.get(name) for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    for one in [*named, "/etc/ssl/certs/ca-certificates.crt"]:
        if one and Path(one).is_file():
            return Path(one)
    return None

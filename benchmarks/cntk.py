"""The race: our CNTK against neural-tangents and against the machine's own limit, in one run on the same threads.

    python benchmarks/cntk.py            # ten minutes, writes docs/benchmarks/cntk.md
    python benchmarks/cntk.py --quick    # one minute, prints only

Every time is the best of several. The race is wall-clock time and, beside it, processor time over all threads, which
other programs on the machine disturb least: ours of the public function, neural-tangents' of a jitted kernel after a
warm-up, at the batch size that suits it best. The cost of an entry-layer is processor time of one thread, the growth
wall-clock time.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import jax  # noqa: E402 - reads the settings above
import numpy as np  # noqa: E402

from tangentbench.atomic import written_whole  # noqa: E402
from tangentbench.kernels import cntk  # noqa: E402
from tangentbench.kernels._backends import native  # noqa: E402
from tangentbench.kernels._backends.neural_tangents import kernel_function  # noqa: E402
from tangentbench.kernels.architectures import vanilla  # noqa: E402

REPORT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "cntk.md"
SIDE, CHANNELS = 32, 3
# Floating point operations of one full layer at one entry: 13 fused and 4 plain products, a square root, 10 sums.
OPERATIONS = 2 * 13 + 4 + 1 + 10


@dataclass(frozen=True)
class Setting:
    depth: int
    pooling: Literal["gap", "flatten"]
    ours: tuple[int, int]
    theirs: tuple[int, ...]  # pairs at once to try, as squares n x n

    def entry_layers(self, side: int = SIDE) -> int:
        return (self.depth - 1) * (side**4 if self.pooling == "gap" else side**2)


def images(count: int, side: int = SIDE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, side, side, CHANNELS)).astype(np.float32)


@dataclass(frozen=True)
class Seconds:
    """The best of several, each clock for itself."""

    wall: float
    processor: float

    def over(self, entries: float) -> Seconds:
        return Seconds(self.wall / entries, self.processor / entries)


def best_of(repeats: int, run: Callable[[], object]) -> Seconds:
    walls, processors = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        run()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return Seconds(min(walls), min(processors))


def ours(
    setting: Setting,
    repeats: int,
    threads: int = THREADS,
    side: int = SIDE,
    shape: tuple[int, int] | None = None,
) -> Seconds:
    """Seconds per entry of the kernel matrix."""
    n1, n2 = shape or setting.ours
    first, second = images(n1, side), images(n2, side, seed=1)

    def run() -> object:
        return cntk(first, second, setting.depth, setting.pooling, backend="native", threads=threads, progress=False)

    return best_of(repeats, run).over(n1 * n2)


def theirs(setting: Setting, repeats: int) -> tuple[Seconds, int]:
    """Seconds per entry of neural-tangents and the batch side it did best at by the wall clock."""
    network = vanilla(setting.depth, setting.pooling, setting.pooling == "flatten")
    kernel = jax.jit(kernel_function(network, "ntk"))
    measured = []
    for batch in setting.theirs:
        first, second = jax.numpy.asarray(images(batch)), jax.numpy.asarray(images(batch, seed=1))

        def run(first=first, second=second) -> object:
            return kernel(first, second).block_until_ready()

        run()
        measured.append((best_of(repeats, run).over(batch**2), batch))
    return min(measured, key=lambda one: one[0].wall)


def race(settings: list[Setting], repeats: int, rival_repeats: int) -> list[str]:
    lines = [
        "| kernel | depth | ours, ms per entry | neural-tangents | its batch | ratio | ratio of processor time |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting in settings:
        mine = ours(setting, repeats)
        rival, batch = theirs(setting, rival_repeats)
        lines.append(
            f"| {setting.pooling} | {setting.depth} | {1e3 * mine.wall:.4g} | {1e3 * rival.wall:.4g} "
            f"| {batch} x {batch} | **{rival.wall / mine.wall:.0f}** | {rival.processor / mine.processor:.0f} |"
        )
        print(lines[-1], flush=True)
    return lines


def unit_cost(settings: list[Setting], repeats: int) -> list[str]:
    peak = max(native.peak_gflops(0.1) for _ in range(5))
    lines = [
        f"Peak of one core, measured: {peak:.0f} GFLOP/s (float32 fused multiply-adds).",
        "",
        "| kernel | depth | 1 thread, CPU ns per entry-layer | share of peak | wall clock, 1 over 2 threads "
        "| processor time, 2 over 1 threads |",
        "|---|---|---|---|---|---|",
    ]
    for setting in settings:
        single, double = (ours(setting, repeats, threads=threads) for threads in (1, 2))
        cost = 1e9 * single.processor / setting.entry_layers()
        lines.append(
            f"| {setting.pooling} | {setting.depth} | {cost:.3f} | {OPERATIONS / cost / peak:.0%} "
            f"| {single.wall / double.wall:.2f} | {double.processor / single.processor:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def growth(repeats: int, quick: bool) -> list[str]:
    lines = ["| what grows | value | ms per entry | ns per entry-layer and core, wall clock |", "|---|---|---|---|"]

    def add(what: str, value: int, setting: Setting, side: int, shape: tuple[int, int]) -> None:
        seconds = ours(setting, repeats, side=side, shape=shape).wall
        unit = THREADS * 1e9 * seconds / setting.entry_layers(side)
        lines.append(f"| {what} | {value} | {1e3 * seconds:.4g} | {unit:.3f} |")
        print(lines[-1], flush=True)

    flat = Setting(6, "flatten", (64, 64), ())
    for n in (16, 64, 256) if quick else (16, 64, 256, 1024):
        add("n (flatten, depth 6)", n, flat, SIDE, (n, n))
    for depth in (3, 6, 11) if quick else (3, 6, 11, 21):
        add("depth (gap)", depth, Setting(depth, "gap", (2, 16), ()), SIDE, (2, 16))
    for side in (8, 16, 32) if quick else (8, 16, 24, 32, 48):
        add("side (gap, depth 6)", side, Setting(6, "gap", (2, 16), ()), side, (2, 16))
    return lines


STREAMED = """
import resource, sys
import numpy as np
from tangentbench.kernels import Gram, cntk
folder, n = sys.argv[1], int(sys.argv[2])
images = np.lib.format.open_memmap(f"{folder}/images.npy", mode="w+", dtype=np.float32, shape=(n, 32, 32, 3))
rng = np.random.default_rng(0)
for start in range(0, n, 256):
    images[start : start + 256] = rng.standard_normal((min(256, n - start), 32, 32, 3), dtype=np.float32)
images.flush()
del images
images = np.load(f"{folder}/images.npy", mmap_mode="r")
kernel = lambda a, b: cntk(a, b, 3, "flatten", threads=2, progress=False)
kernel(np.ascontiguousarray(images[:256]), np.ascontiguousarray(images[-256:]))
def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
before = most = anonymous()
class Watched:
    def __call__(self, a, b):
        global most
        values = kernel(a, b)
        most = max(most, anonymous())
        return values
Gram.create(f"{folder}/gram", images, kernel={"depth": 3}, tile=256).compute(Watched(), progress=False)
print(before / 1024, most / 1024)
"""


def memory(quick: bool) -> list[str]:
    """Resident memory that is not a mapped file, while the tiles are computed."""
    lines = ["| n | matrix, MiB | images, MiB | process before, MiB | most on the way, MiB |", "|---|---|---|---|---|"]
    for n in (512, 1024) if quick else (512, 1024, 2048, 4096):
        with tempfile.TemporaryDirectory() as folder:
            call = [sys.executable, "-c", STREAMED, folder, str(n)]
            before, most = map(float, subprocess.run(call, capture_output=True, text=True, check=True).stdout.split())
        matrix, inputs = 4 * n * n / 2**20, 4 * n * SIDE * SIDE * CHANNELS / 2**20
        lines.append(f"| {n} | {matrix:.0f} | {inputs:.0f} | {before:.0f} | {most:.0f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer settings and repeats, nothing written")
    parser.add_argument("--repeats", type=int, help="how often each time is taken (9, with --quick 3)")
    arguments = parser.parse_args()
    quick = arguments.quick
    repeats, rival_repeats = (3, 1) if quick else (9, 2)
    repeats = arguments.repeats or repeats
    # second images fill the vectors of the machine at hand, as they do in any matrix of some size
    few = (2, native.lanes(np.dtype(np.float32)))
    gap = [Setting(depth, "gap", few, (1,) if quick else (1, 2)) for depth in ((4,) if quick else (4, 6, 11))]
    flat = [
        Setting(depth, "flatten", (256, 256), (64,) if quick else (16, 64, 128))
        for depth in ((6,) if quick else (4, 6, 11, 21))
    ]
    about = native.describe()
    print(about, flush=True)
    sections = [
        "# The CNTK against neural-tangents",
        "",
        "Written by `python benchmarks/cntk.py`. Random images of "
        f"{SIDE} x {SIDE} x {CHANNELS}, float32, NTK, 3 x 3 filters, {THREADS} threads each, best of {repeats} "
        f"(neural-tangents: of {rival_repeats}, jitted, at its best batch). {processor()}, "
        f"{about['instruction_set']}, {about['threading']}. Load of the machine before: {os.getloadavg()[0]:.1f}; "
        "above 1, wall-clock times are those of a machine shared with other programs, and processor time tells more.",
        "",
        *race(gap + flat, repeats, rival_repeats),
        "",
        "## Cost of one entry-layer",
        "",
        "An entry-layer is one pair of positions in one convolution: height^2 width^2 (depth - 1) of them make an "
        "entry of a GAP kernel, height width (depth - 1) one of a flatten kernel. The untrained first and last layers "
        "of the GAP kernel are cheaper than the layers between them. The share of peak counts "
        f"{OPERATIONS} operations of a full layer.",
        "",
        *unit_cost(gap + flat, repeats),
        "",
        "## Growth",
        "",
        *growth(repeats, quick),
        "",
        "## Memory",
        "",
        "Peak of a process that computes a symmetric matrix of n images into a Gram store (flatten, depth 3, tiles of "
        "256), above what it held before; the images are mapped from a file.",
        "",
        *memory(quick),
        "",
    ]
    if not quick:
        with written_whole(REPORT) as temporary:
            temporary.write_text("\n".join(sections), encoding="utf-8")
        print(f"written: {REPORT}")


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()

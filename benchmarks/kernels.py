"""The race of the exact kernels: against neural-tangents in its fastest mode, and against our own limits, in one run.

    python benchmarks/kernels.py            # a quarter of an hour on an idle machine, writes docs/benchmarks/kernels.md
    python benchmarks/kernels.py --quick    # two minutes, prints only

Times are wall-clock time, the best of several, with processor time over all threads beside it, which other programs on
the machine disturb least: ours of the public functions, neural-tangents' of a compiled kernel after a warm-up, in the
mode (64-bit switch, batch) that suits it best (peers/neural_tangents_modes.py). All layers are trained on both sides.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402 - reads the settings above
from peers.neural_tangents_modes import Request, fastest  # noqa: E402

from tangentbench.atomic import written_whole  # noqa: E402
from tangentbench.kernels import cntk, exact, myrtle  # noqa: E402
from tangentbench.kernels._backends import native  # noqa: E402

REPORT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "kernels.md"
SIDE, CHANNELS = 32, 3
PAPER_DEPTHS = (3, 4, 6, 11, 21)
# Floating point operations of one full layer at one entry: 13 fused and 4 plain products, a square root, 10 sums.
OPERATIONS = 2 * 13 + 4 + 1 + 10
MYRTLE_5 = ["conv3", "relu", "conv3", "relu", "pool2", "conv3", "relu", "pool2", "conv3", "relu", "gap", "dense"]


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


def images(count: int, side: int = SIDE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, side, side, CHANNELS)).astype(np.float32)


def ours(shape: tuple[int, int], repeats: int, threads: int = THREADS, side: int = SIDE, **settings: Any) -> Seconds:
    """Seconds per entry of `cntk` with these settings."""
    first, second = images(shape[0], side), images(shape[1], side, seed=1)
    how: Any = {"backend": "native", "threads": threads, "progress": False}
    return best_of(repeats, lambda: cntk(first, second, **settings, **how)).over(shape[0] * shape[1])


@dataclass(frozen=True)
class Lane:
    """One row of the race."""

    name: str
    layers: Sequence[str]
    run: Callable[[int], Seconds]
    batches: tuple[int, ...]


def lanes(quick: bool) -> list[Lane]:
    few = (2, native.lanes(np.dtype(np.float32)))

    def convolutional(depth: int, pooling: str) -> Lane:
        shape = few if pooling == "gap" else (256, 256)
        layers = ["conv3", "relu"] * (depth - 1) + [pooling, "dense"]
        batches = (1, 2, 4) if pooling == "gap" else (16, 64, 128)
        settings: Any = {"depth": depth, "pooling": pooling, "train_first_last": True}
        return Lane(f"{pooling}, depth {depth}", layers, lambda n: ours(shape, n, **settings), batches)

    def of_myrtle(repeats: int) -> Seconds:
        first, second = images(16), images(16, seed=1)
        how: Any = {"backend": "native", "threads": THREADS, "progress": False}
        return best_of(repeats, lambda: exact(first, second, myrtle(5), **how)).over(16 * 16)

    pooled, flat = ((4,), (6,)) if quick else ((4, 6, 11), (4, 6, 11, 21))
    return [
        *(convolutional(depth, "gap") for depth in pooled),
        *(convolutional(depth, "flatten") for depth in flat),
        *([] if quick else [Lane("Myrtle-5", MYRTLE_5, of_myrtle, (2, 4))]),
    ]


def race(quick: bool, repeats: int) -> list[str]:
    lines = [
        "| kernel | ours, ms per entry | neural-tangents, ms | its fastest mode | ratio | ratio of processor time |",
        "|---|---|---|---|---|---|",
    ]
    for lane in lanes(quick):
        mine = lane.run(repeats)
        rival = fastest(Request(tuple(lane.layers), "ntk", SIDE, CHANNELS, lane.batches, 1 if quick else 2, THREADS))
        lines.append(
            f"| {lane.name} | {1e3 * mine.wall:.4g} | {1e3 * rival.wall:.4g} | {rival} "
            f"| **{rival.wall / mine.wall:.0f}** | {rival.processor / mine.processor:.0f} |"
        )
        print(lines[-1], flush=True)
    return lines


def entry_layers(depth: int, pooling: str, side: int = SIDE) -> int:
    return (depth - 1) * (side**4 if pooling == "gap" else side**2)


def unit_cost(quick: bool, repeats: int) -> list[str]:
    peak = max(native.peak_gflops(0.1) for _ in range(5))
    few = (2, native.lanes(np.dtype(np.float32)))
    lines = [
        f"Peak of one core, measured: {peak:.0f} GFLOP/s (float32 fused multiply-adds).",
        "",
        "| kernel | depth | CPU ns per entry-layer, 1 thread | share of peak | wall clock, 1 over 2 threads |",
        "|---|---|---|---|---|",
    ]
    for pooling, depths in (("gap", (6,) if quick else (4, 6, 11)), ("flatten", (6,) if quick else (6, 11, 21))):
        shape = few if pooling == "gap" else (256, 256)
        for depth in depths:
            single, double = (ours(shape, repeats, n, depth=depth, pooling=pooling) for n in (1, 2))
            cost = 1e9 * single.processor / entry_layers(depth, pooling)
            share = OPERATIONS / cost / peak
            lines.append(f"| {pooling} | {depth} | {cost:.3f} | {share:.0%} | {single.wall / double.wall:.2f} |")
            print(lines[-1], flush=True)
    return lines


def sharing(quick: bool, repeats: int) -> list[str]:
    """What comes along in one pass: several depths, both kernels; and what a lonely pair costs."""
    few = (2, native.lanes(np.dtype(np.float32)))
    side, shape = (16, few) if quick else (SIDE, few)
    lines = ["| what | in units of | ratio of processor time, 1 thread |", "|---|---|---|"]

    def add(what: str, unit: str, several: Seconds, one: Seconds) -> None:
        lines.append(f"| {what} | {unit} | {several.processor / one.processor:.2f} |")
        print(lines[-1], flush=True)

    for pooling, many in (("gap", shape), ("flatten", (128, 128))):
        common: Any = {"threads": 1, "side": side, "pooling": pooling}
        deepest = ours(many, repeats, depth=PAPER_DEPTHS[-1], **common)
        add(f"{pooling}, five depths", "the deepest", ours(many, repeats, depth=list(PAPER_DEPTHS), **common), deepest)
        one = ours(many, repeats, depth=6, **common)
        both = ours(many, repeats, depth=6, kind="both", **common)
        add(f"{pooling}, NTK and NNGP", "NTK alone", both, one)
        add(f"{pooling}, one pair", "an entry of a block", ours((1, 1), repeats, depth=6, **common), one)
    return lines


def growth(repeats: int) -> list[str]:
    lines = ["| what grows | value | ms per entry | ns per entry-layer and core, wall clock |", "|---|---|---|---|"]

    def add(what: str, value: int, shape: tuple[int, int], side: int, depth: int, pooling: str) -> None:
        seconds = ours(shape, repeats, side=side, depth=depth, pooling=pooling).wall
        unit = THREADS * 1e9 * seconds / entry_layers(depth, pooling, side)
        lines.append(f"| {what} | {value} | {1e3 * seconds:.4g} | {unit:.3f} |")
        print(lines[-1], flush=True)

    for n in (16, 64, 256, 1024):
        add("n (flatten, depth 6)", n, (n, n), SIDE, 6, "flatten")
    for depth in (3, 6, 11, 21):
        add("depth (gap)", depth, (2, 16), SIDE, depth, "gap")
    for side in (8, 16, 24, 32, 48):
        add("side (gap, depth 6)", side, (2, 16), side, 6, "gap")
    return lines


STREAMED = """
import resource, sys
import numpy as np
from tangentbench.gram import Gram
from tangentbench.kernels import cntk
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


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def page(quick: bool, repeats: int) -> str:
    about = native.describe()
    print(about, flush=True)
    return "\n".join(
        [
            "# The exact kernels against neural-tangents",
            "",
            f"Written by `python benchmarks/kernels.py`. Random images of {SIDE} x {SIDE} x {CHANNELS}, float32, NTK, "
            f"all layers trained, {THREADS} threads, best of {repeats}. {processor()}, {about['instruction_set']}, "
            f"{about['threading']}. Load before: {os.getloadavg()[0]:.1f}; above 1, wall-clock times are "
            "those of a machine shared with other programs, and processor time tells more.",
            "",
            *race(quick, repeats),
            "",
            "## One pass, several answers",
            "",
            *sharing(quick, repeats),
            "",
            "## Cost of one entry-layer",
            "",
            "An entry-layer is one pair of positions in one convolution: height^2 width^2 (depth - 1) of them make an "
            "entry of a GAP kernel, height width (depth - 1) one of a flatten kernel.",
            "",
            *unit_cost(quick, repeats),
            *([] if quick else ["", "## Growth", "", *growth(repeats)]),
            "",
            "## Memory",
            "",
            "Peak of a process that computes a symmetric matrix of n images into a Gram store (flatten, depth 3, tiles "
            "of 256), above what it held before; the images are mapped from a file.",
            "",
            *memory(quick),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer settings and repeats, nothing written")
    parser.add_argument("--repeats", type=int, help="how often each time is taken (7, with --quick 3)")
    options = parser.parse_args()
    text = page(options.quick, options.repeats or (3 if options.quick else 7))
    if not options.quick:
        with written_whole(REPORT) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(f"written: {REPORT}")


if __name__ == "__main__":
    main()

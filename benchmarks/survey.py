"""The race: our kernel of the Myrtle network against neural-tangents, in one run on the same threads.

    python benchmarks/survey.py            # 32 x 32 pixels, NTK and NNGP, the batch sizes neural-tangents likes best
    python benchmarks/survey.py --quick    # 16 x 16 pixels, NTK only

Every time is the best of several, of the kernel between two batches: ours of the public function, neural-tangents' of a
compiled kernel after a warm-up. Wall-clock time, and processor time over all threads, which other programs on the
machine disturb less. Both kernels are compared before they are timed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402 - reads the settings above

from tangentbench.kernels import exact, myrtle  # noqa: E402
from tangentbench.kernels._backends import native  # noqa: E402
from tangentbench.kernels.exact import Kind  # noqa: E402
from tangentbench.studies.survey.measure.regimes import NeuralTangents  # noqa: E402

OURS_AT_ONCE = 16
AGREEMENT = 1e-5


def images(count: int, side: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, side, side, 3)).astype(np.float32)


def best_of(repeats: int, run: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds, the best of each."""
    walls, cores = [], []
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        run()
        walls.append(time.perf_counter() - wall)
        cores.append(time.process_time() - core)
    return min(walls), min(cores)


def race(depth: int, kind: Kind, side: int, batches: list[int], repeats: int) -> str:
    network = myrtle(depth)
    first, second = images(OURS_AT_ONCE, side, 0), images(OURS_AT_ONCE, side, 1)

    def ours() -> np.ndarray:
        return exact(first, second, network, kind, backend="native", threads=THREADS)

    measured = []
    for batch in batches:
        theirs = NeuralTangents(network, kind, (side, side, 3), batch)
        values = theirs.kernel(first[:batch], second[:batch])
        error = np.abs(ours()[:batch, :batch] / values - 1).max()
        assert error < AGREEMENT, f"the kernels differ by {error:.1e}"
        wall, core = best_of(repeats, lambda theirs=theirs, n=batch: theirs.kernel(first[:n], second[:n]))  # type: ignore[misc]
        measured.append((wall / batch**2, core / batch**2, batch))
    rival_wall, rival_core, batch = min(measured)
    wall, core = (seconds / OURS_AT_ONCE**2 for seconds in best_of(3 * repeats, ours))
    return (
        f"| Myrtle-{depth} | {kind} | {side} | {1e3 * wall:.3g} | {1e3 * rival_wall:.4g} | {batch} x {batch} "
        f"| **{rival_wall / wall:.0f}** | {rival_core / core:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 x 16 pixels and NTK only")
    options = parser.parse_args()
    print(f"{THREADS} threads, {native.chosen_instruction_set()}")
    print("| network | kernel | side | ours, ms per entry | neural-tangents | its batch | ratio | ratio in core time |")
    print("|---|---|---|---|---|---|---|---|")
    kinds: list[Kind] = ["ntk"] if options.quick else ["ntk", "nngp"]
    for kind in kinds:
        print(race(5, kind, 16 if options.quick else 32, [2, 4], 3), flush=True)


if __name__ == "__main__":
    main()

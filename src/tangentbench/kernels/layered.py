"""The exact NTK and NNGP kernel of convolutional ReLU networks given as a list of layers, pooling included."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from tangentbench.errors import UnknownName
from tangentbench.kernels import native_layered
from tangentbench.kernels.architecture import InvalidKernelInput, Kind
from tangentbench.kernels.cntk import (
    BLOCK_ENTRY_LAYERS,
    checked_images,
    chosen_backend,
    computing_type,
    describe_shape,
    thread_count,
)
from tangentbench.kernels.layers import Dense, Flatten, GlobalAveragePool, Layer, Network, Relu, checked, myrtle
from tangentbench.progress import tqdm
from tangentbench.shapes import Images, KernelMatrix

Backend = Literal["auto", "native", "torch", "neural-tangents"]
BACKENDS = ("auto", "native", "torch", "neural-tangents")

LARGEST_BLOCK = 64
SMALLEST_BLOCK = 16


def layered_kernel(
    x1: Images,
    x2: Images | None = None,
    network: Sequence[Layer] | None = None,
    kind: Kind = "ntk",
    dtype: Any = None,
    backend: Backend = "auto",
    threads: int | None = None,
    progress: bool = True,
) -> KernelMatrix:
    """The kernel of every image of x1 with every image of x2, or of x1 with itself (then half is computed): (n1, n2).

    x1, x2: images (n, height, width, channels) of any size, in any real dtype.
    network: layers of `tangentbench.kernels.layers`; None is `myrtle()`. Values are in neural-tangents' scale
        (parametrisation "ntk"): inputs are averaged over channels, layers over their windows.
    kind: "ntk" for the tangent kernel of all weights, "nngp" for the covariance of the output at initialisation.
    dtype, threads, progress: as of `cntk`.
    backend: "auto" is the native core where it can run the layers (no residual branches, no strided convolutions,
        pooling windows that do not overlap) and there is no GPU, else torch.

    Example:
        gram = layered_kernel(images, network=myrtle(depth=7))
    """
    if kind not in ("ntk", "nngp"):
        raise UnknownName("kind", str(kind), ["ntk", "nngp"])
    precision = computing_type(x1, x2, dtype)
    first = checked_images(x1, "x1", precision)
    second = None if x2 is None else checked_images(x2, "x2", precision)
    if second is not None and first.shape[1:] != second.shape[1:]:
        raise InvalidKernelInput(
            f"images of x1 are {describe_shape(first)} and images of x2 {describe_shape(second)}: they must agree"
        )
    layers = checked(myrtle() if network is None else network, *first.shape[2:])
    chosen = backend_for(layers, backend)
    if chosen == "neural-tangents":
        from tangentbench.kernels import oracle_layers

        return oracle_layers.rectangle(first, first if second is None else second, layers, kind).astype(precision)
    out = np.empty((len(first), len(first if second is None else second)), precision)
    for rows, columns, values in _blocks(first, second, layers, kind, chosen, thread_count(threads), progress):
        out[rows, columns] = values
        if second is None:
            out[columns, rows] = values
    if not np.isfinite(out).all():
        raise InvalidKernelInput(
            f"the kernel leaves the range of {precision.name}: scale the images down or ask for dtype='float64'"
        )
    return out


def backend_for(layers: Network, backend: str) -> str:
    if backend not in BACKENDS:
        raise UnknownName("backend", str(backend), BACKENDS)
    body, _, _ = parts(layers)
    if native_layered.fits(body):
        # on a GPU the CNTK has a kernel of its own, which knows no layers
        return {"triton": "torch"}.get(chosen := chosen_backend(backend), chosen)
    if backend == "native":
        raise InvalidKernelInput(
            "the native core has no residual branches, strided convolutions or overlapping pooling: use backend='torch'"
        )
    return "torch" if backend == "auto" else backend


def parts(layers: Network) -> tuple[Network, Layer, Network]:
    """What comes before the positions end, the layer that ends them, what comes after."""
    at = next(number for number, layer in enumerate(layers) if isinstance(layer, GlobalAveragePool | Flatten))
    return layers[:at], layers[at], layers[at + 1 :]


def _blocks(
    first: np.ndarray,
    second: np.ndarray | None,
    layers: Network,
    kind: str,
    backend: str,
    threads: int,
    progress: bool,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, columns and values of pieces of the matrix (of its upper half where second is None)."""
    other = first if second is None else second
    side = _block_side(first)
    pieces = [(i, j) for i in range(0, len(first), side) for j in range(i if second is None else 0, len(other), side)]
    hidden = not progress or len(pieces) == 1 or not sys.stderr.isatty()
    for i, j in tqdm(pieces, unit="block", desc="kernel", disable=hidden):
        diagonal = second is None and i == j
        left, right = first[i : i + side], None if diagonal else other[j : j + side]
        if right is None:
            rows, columns = np.triu_indices(len(left))
        else:
            rows, columns = (one.ravel() for one in np.indices((len(left), len(right))))
        chosen = np.stack([rows, columns], axis=1)
        yield rows + i, columns + j, kernel_of_pairs(left, right, chosen, layers, kind, backend, threads)


def _block_side(images: np.ndarray) -> int:
    positions = (images.shape[2] * images.shape[3]) ** 2
    wanted = int((BLOCK_ENTRY_LAYERS / positions) ** 0.5) // SMALLEST_BLOCK * SMALLEST_BLOCK
    return min(LARGEST_BLOCK, max(SMALLEST_BLOCK, wanted))


def kernel_of_pairs(
    x1: np.ndarray,
    x2: np.ndarray | None,
    chosen: np.ndarray,
    layers: Network,
    kind: str,
    backend: str,
    threads: int,
) -> np.ndarray:
    """Kernel of the pairs `chosen` (count, 2) of rows of x1 and of x2 (of x1 where None), float64 (count,)."""
    if backend == "torch":
        from tangentbench.kernels import recursion_layers_torch

        both = recursion_layers_torch.pairs(x1, x1 if x2 is None else x2, chosen, layers, tangent=kind == "ntk")
        return both[:, 1 if kind == "ntk" else 0]
    body, gather, head = parts(layers)
    tangent = kind == "ntk"

    def behind_positions(left: np.ndarray, right: np.ndarray | None, rows: np.ndarray, tangent: bool) -> np.ndarray:
        return native_layered.pairs(left, right, rows, body, gather, tangent=tangent, threads=threads)

    both = behind_positions(x1, x2, chosen, tangent)
    first = second = np.zeros(len(chosen))
    if any(isinstance(layer, Relu) for layer in head):
        own = [
            behind_positions(x, None, np.repeat(np.arange(len(x))[:, None], 2, axis=1), False)[:, 0]
            for x in (x1, x1 if x2 is None else x2)
        ]
        first, second = own[0][chosen[:, 0]], own[1][chosen[:, 1]]
    return through_head(head, both[:, 0], both[:, 1], first, second)[1 if tangent else 0]


def through_head(
    head: Network, sigma: np.ndarray, theta: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Dense layers and ReLUs on covariances without positions; first, second: the variances of the two images."""
    for layer in head:
        if isinstance(layer, Dense):
            theta = layer.gain * (theta + sigma)
            sigma, first, second = layer.gain * sigma, layer.gain * first, layer.gain * second
        else:
            roots = np.sqrt(first * second)
            cosine = np.clip(np.divide(sigma, roots, out=np.zeros_like(sigma), where=roots > 0), -1.0, 1.0)
            share = 1 - np.arccos(cosine) / np.pi
            theta = theta * share / 2
            sigma = (sigma * share + roots * np.sqrt(1 - cosine**2) / np.pi) / 2
            first, second = first / 2, second / 2
    return sigma, theta

"""The exact NTK and NNGP kernels of infinitely wide networks on images: one front for every network and backend.

`exact` takes any network of kernels.network, or several: those that share a beginning are computed in one pass. `cntk`
is the network of "On exact computation with an infinitely wide neural net", section 4, with its conventions: `depth`
counts the fully connected layer, so there are depth - 1 convolutions. Sections 4.1 and 4.2 print one more sum over
patches in the last layer than the network they define has; appendix E and neural-tangents do without it, as here.

Two scales. neural-tangents averages where the paper sums, over the channels of the images and, where a network
flattens, over positions; so, with variances 2 in the convolutions and 1 in the last layer,

    paper's kernel = channels                  * neural-tangents   (global average pooling)
    paper's kernel = channels * height * width * neural-tangents   (flatten)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from tangentbench.errors import UnknownName
from tangentbench.kernels._images import checked_images, describe_shape, thread_count
from tangentbench.kernels._passes import Pass, shared_passes
from tangentbench.kernels._precision import computing_type, inner_type
from tangentbench.kernels.architectures import myrtle, vanilla
from tangentbench.kernels.choice import Backend, chosen_backend
from tangentbench.kernels.network import (
    InvalidKernelInput,
    Layer,
    Network,
    checked,
    flat,
    is_integer,
    parts,
    size_behind,
)
from tangentbench.shapes import Images, KernelMatrix

Kind = Literal["ntk", "nngp", "both"]
Pooling = Literal["gap", "flatten"]
Scale = Literal["paper", "neural-tangents"]
KINDS, SCALES, POOLINGS = ("ntk", "nngp"), ("paper", "neural-tangents"), ("gap", "flatten")


class Computing(TypedDict, total=False):
    """How a kernel is computed, which does not change what is computed; every option may be left out.

    dtype: of the computation and the result; None is float64 for images of float64 or more and float32 for all others.
        float32 is good to 1e-5: what sinks into its rounding is computed in double (_precision.py).
    backend: "auto" is the fastest that serves the network (choice.py); "neural-tangents" is slow and independent.
    threads: of the native core; None is every core this process may use (OMP_NUM_THREADS if that is less).
    progress: whether a bar is shown for long computations.
    """

    dtype: Any
    backend: Backend
    threads: int | None
    progress: bool


class Choices(Computing, total=False):
    """`Computing`, and the scale of the values: that of the CNTK paper or of neural-tangents."""

    scale: Scale


@dataclass(frozen=True)
class Kernels:
    """Both kernels of one pass, (n1, n2) each, or (networks, n1, n2)."""

    ntk: KernelMatrix
    nngp: KernelMatrix


def exact(
    x1: Images,
    x2: Images | None = None,
    network: Sequence[Layer] | Sequence[Sequence[Layer]] | None = None,
    kind: Kind | tuple[str, ...] = "ntk",
    **choices: Unpack[Choices],
) -> Any:
    """The kernel of every image of x1 with every image of x2, or of x1 with itself (then half is computed): (n1, n2).

    x1, x2: images (n, height, width, channels) of any size, in any real dtype.
    network: layers of `kernels.network`, None is `myrtle()`; or a list of networks, and then (networks, n1, n2).
    kind: "ntk" for the tangent kernel, "nngp" for the covariance of the output at initialisation, "both" (or a tuple
        of the two) for `Kernels` with .ntk and .nngp from one pass.
    choices: any of `Choices`, by name: dtype, backend, threads, progress, scale ("neural-tangents" unless said).

    Example:
        gram = exact(images, network=myrtle(depth=7))
        both = exact(test, images, network=resnet50(), kind="both")
    """
    wanted = kinds_of(kind)
    several = network is not None and _is_list_of_networks(network)
    networks = list(network) if several else [myrtle() if network is None else network]  # type: ignore[arg-type]
    values = _computed(x1, x2, networks, wanted, {"scale": "neural-tangents", **choices})
    if not several:
        values = {name: one[0] for name, one in values.items()}
    return Kernels(values["ntk"], values["nngp"]) if len(wanted) == 2 else values[wanted[0]]


def cntk(
    x1: Images,
    x2: Images | None = None,
    depth: int | Sequence[int] = 6,
    pooling: Pooling = "gap",
    kind: Kind | tuple[str, ...] = "ntk",
    train_first_last: bool | None = None,
    filter: int = 3,
    **computing: Unpack[Choices],
) -> Any:
    """The convolutional kernel of the paper: (n1, n2) for one depth, (depths, n1, n2) in their order for several.

    x1, x2: images (n, height, width, channels) of any size, in any real dtype; x2 None is x1 (half is computed).
    depth: convolutions plus the one fully connected layer; several depths come from one pass through the deepest.
    pooling: "gap" averages over all positions before the last layer (section 4.2), "flatten" does not (section 4.1).
    kind: as of `exact`.
    train_first_last: None is the paper's choice, False with "gap" and True with "flatten". With depth 2 and False
        nothing is trained and the tangent kernel is zero.
    filter: side of the square filters, odd.
    computing: any of `Choices`, by name; the scale is the paper's unless said otherwise.

    Example:
        gram = cntk(images, depth=11)                       # CNTK-GAP with 10 convolutions
        cross = cntk(test, images, depth=[3, 4, 6], pooling="flatten")
    """
    if pooling not in POOLINGS:
        raise UnknownName("pooling", str(pooling), POOLINGS)
    if train_first_last is not None and not isinstance(train_first_last, bool | np.bool_):
        raise InvalidKernelInput(f"train_first_last is {train_first_last!r}: it is True, False or None")
    trained = pooling == "flatten" if train_first_last is None else bool(train_first_last)
    several = isinstance(depth, Sequence | np.ndarray) and not isinstance(depth, str)
    depths: list[Any] = list(depth) if several else [depth]  # type: ignore[arg-type]
    for one in depths:
        if not is_integer(one) or one < 2:
            raise InvalidKernelInput(
                f"depth is {one!r}: it counts the convolutions and the fully connected layer, so it is at least 2"
            )
    networks = [vanilla(int(one), pooling, trained, filter) for one in depths]
    choices: Choices = {"scale": "paper", **computing}
    return exact(x1, x2, networks if several else networks[0], kind, **choices)


def kinds_of(kind: Any) -> tuple[str, ...]:
    if kind == "both":
        return KINDS
    wanted = (kind,) if isinstance(kind, str) or not isinstance(kind, Sequence) else tuple(dict.fromkeys(kind))
    for one in wanted or ("",):
        if one not in KINDS:
            raise UnknownName("kind", str(one), [*KINDS, "both"])
    return wanted


def _is_list_of_networks(network: Any) -> bool:
    return isinstance(network, Sequence) and bool(network) and all(isinstance(one, Sequence) for one in network)


def _computed(
    x1: Any, x2: Any, networks: Sequence[Any], kinds: tuple[str, ...], choices: Choices
) -> dict[str, np.ndarray]:
    """Both kernels of every network, (networks, n1, n2) each."""
    if choices["scale"] not in SCALES:
        raise UnknownName("scale", str(choices["scale"]), SCALES)
    precision = computing_type(x1, x2, choices.get("dtype"))
    threads = thread_count(choices.get("threads"))
    first = checked_images(x1, "x1", precision)
    second = None if x2 is None else checked_images(x2, "x2", precision)
    if second is not None and first.shape[1:] != second.shape[1:]:
        raise InvalidKernelInput(
            f"images of x1 are {describe_shape(first)} and images of x2 {describe_shape(second)}: they must agree"
        )
    size = (first.shape[2], first.shape[3])
    known = [checked(network, *size) for network in networks]
    if "ntk" in kinds:
        for layer in (one for network in known for one in flat(network)):
            layer.refuse_tangent()
    out = {name: np.empty((len(known), len(first), len(first if second is None else second))) for name in kinds}
    for group in shared_passes(known):
        backend = chosen_backend(choices.get("backend", "auto"), group.trunk, group.gather, size)
        held = [first] if second is None else [first, second]
        inner = np.dtype(np.float64) if group.activated_head else inner_type(precision, held, group.trunk, size)
        task = Pass(group, backend, threads, "ntk" in kinds, inner)
        for rows, columns, pair in task.blocks(first, second, progress=choices.get("progress", True)):
            for number, sigma, theta in pair:
                for name, values in (("nngp", sigma), ("ntk", theta)):
                    if name in kinds:
                        out[name][number, rows, columns] = values
                        if second is None and rows != columns:
                            out[name][number, columns, rows] = values.T
    factors = [_factor(network, first, choices["scale"]) for network in known]
    return {name: _in_range(values, factors, precision) for name, values in out.items()}


def _factor(network: Network, images: np.ndarray, scale: str) -> float:
    if scale == "neural-tangents":
        return 1.0
    trunk, gather, _ = parts(network)
    height, width = size_behind(trunk, (images.shape[2], images.shape[3]))
    return float(images.shape[1] * (height * width if gather.operation == "flatten" else 1))


def _in_range(values: np.ndarray, factors: Sequence[float], precision: np.dtype[Any]) -> np.ndarray:
    """Values in the precision that was asked for, if it holds them; never an infinity or a zero that is none."""
    with np.errstate(over="ignore", under="ignore"):
        values *= np.asarray(factors)[:, None, None]
        out = values.astype(precision)
    size = np.abs(out)
    if not np.isfinite(out).all() or (size.max(initial=0.0) > 0 and _lost(size, values, precision)):
        raise InvalidKernelInput(
            f"the kernel leaves the range of {precision.name}: bring the images nearer to 1 or ask for dtype='float64'"
        )
    return out


def _lost(size: np.ndarray, values: np.ndarray, precision: np.dtype[Any]) -> bool:
    small = (size < np.finfo(precision).tiny) & (values != 0)
    return bool(small.any())

"""NTK and NNGP kernels of fully connected networks with biases and any activation (section 3 of the CNTK paper)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tangentbench.errors import UnknownName
from tangentbench.kernels.architecture import InvalidKernelInput, Kind, is_integer
from tangentbench.shapes import KernelMatrix, Vectors
from tangentbench.theory.activations import activation as named_activation
from tangentbench.theory.gaussian_pairs import CLOSED_FORMS, Dual, cosines, leaky_relu_dual

QUADRATURE_NODES = 128
CHUNK_ELEMENTS = 1 << 22
DIFFERENCE_STEP = 1e-5


@runtime_checkable
class ActivationLike(Protocol):
    """Anything with a numpy function; a `derivative` beside it is used if there is one."""

    @property
    def function(self) -> Callable[[np.ndarray], np.ndarray]: ...


def ntk(
    x1: Vectors,
    x2: Vectors | None = None,
    *,
    depth: int,
    activation: str | ActivationLike | Callable[[np.ndarray], np.ndarray] = "relu",
    weight_std: float = float(np.sqrt(2.0)),
    bias_std: float = 0.0,
    kind: Kind = "ntk",
) -> KernelMatrix:
    """The kernel of every row of x1 with every row of x2, or of x1 with itself: float64, (n1, n2).

    The network has `depth` weight layers, h^(l) = weight_std / sqrt(fan in) W f(h^(l-1)) + bias_std b, its output is
    h^(depth) and h^(1) takes the input itself; W and b are standard normal and all are trained. These are the
    conventions of neural-tangents for Dense(W_std, b_std, parameterization="ntk") in every layer. For ReLU,
    weight_std = sqrt(2) and no biases the kernel of section 3, whose input layer is not scaled, is d / 2 times this
    one, d the input's dimension.

    x1, x2: (n, d). activation: "relu", "leaky_relu:0.1", "erf" and "identity" in closed form; a name of
        tangentbench.theory.activations, an object with a numpy `function`, or a numpy function by Gauss-Hermite.
    """
    if not is_integer(depth) or depth < 1:
        raise InvalidKernelInput(f"depth is {depth!r}: it counts the layers of weights, so it is at least 1")
    if kind not in ("ntk", "nngp"):
        raise UnknownName("kind", str(kind), ["ntk", "nngp"])
    first = checked_rows(x1, "x1")
    second = first if x2 is None else checked_rows(x2, "x2")
    dimension = first.shape[1]
    if second.shape[1] != dimension:
        raise InvalidKernelInput(f"x1 has {dimension} features and x2 {second.shape[1]}: they must agree")
    dual = dual_of(activation)

    gain, bias = weight_std**2, bias_std**2
    sigma = gain * (first @ second.T) / dimension + bias
    rows, columns = (gain * np.einsum("nd,nd->n", x, x) / dimension + bias for x in (first, second))
    theta = sigma
    for _ in range(depth - 1):
        k1, k0 = dual(sigma, rows, columns)
        sigma = gain * k1 + bias
        theta = sigma + gain * k0 * theta
        rows, columns = (gain * variance_after(dual, v) + bias for v in (rows, columns))
    result: np.ndarray = sigma if kind == "nngp" else theta
    return np.asarray((result + result.T) / 2) if x2 is None else result


def checked_rows(x: Any, name: str) -> np.ndarray:
    array = np.asarray(x)
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiub":
        raise InvalidKernelInput(f"{name} has shape {array.shape} and dtype {array.dtype}: it is (n, d), real numbers")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise InvalidKernelInput(f"{name} has NaN or infinite values, first in row {int(bad.argmax())}: leave it out")
    return array


def variance_after(dual: Dual, variances: np.ndarray) -> np.ndarray:
    """E[f(a)^2] for every variance, by the dual of each point with itself."""
    values = [dual(v[None, None], v[None], v[None])[0][0, 0] for v in variances]
    return np.asarray(values)


def dual_of(activation: Any) -> Dual:
    if isinstance(activation, str):
        name, _, parameter = activation.partition(":")
        if name == "leaky_relu" and parameter:
            return leaky_relu_dual(float(parameter))
        if activation in CLOSED_FORMS:
            return CLOSED_FORMS[activation]
        activation = named_activation(activation)
    slope = getattr(activation, "parameters", {}).get("slope")
    if getattr(activation, "name", None) == "leaky_relu" and slope is not None:
        return leaky_relu_dual(float(slope))
    if getattr(activation, "name", None) in CLOSED_FORMS:
        return CLOSED_FORMS[activation.name]
    function = activation.function if isinstance(activation, ActivationLike) else activation
    if not callable(function):
        raise InvalidKernelInput(f"activation is {activation!r}: give a name, a numpy function or an object with one")
    return quadrature_dual(function, getattr(activation, "derivative", None))


def quadrature_dual(
    function: Callable[[np.ndarray], np.ndarray], derivative: Callable[[np.ndarray], np.ndarray] | None = None
) -> Dual:
    """Gauss-Hermite in both variables: a = sqrt(v) y, b = sqrt(v') (rho y + sqrt(1 - rho^2) z).

    Exact to rounding for smooth activations; a kink costs accuracy (about 1e-3), so piecewise linear ones should have
    their closed form in theory/gaussian_pairs.py.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    weights = weights / weights.sum()
    kept = weights > 1e-17
    nodes, weights = nodes[kept], weights[kept]

    def slope(x: np.ndarray) -> np.ndarray:
        if derivative is not None:
            return derivative(x)
        return np.asarray((function(x + DIFFERENCE_STEP) - function(x - DIFFERENCE_STEP)) / (2 * DIFFERENCE_STEP))

    def dual(sigma: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cosine, _ = cosines(sigma, rows, columns)
        correlations = cosine.ravel()
        first, second = (v.ravel() for v in np.broadcast_arrays(np.sqrt(rows)[:, None], np.sqrt(columns)[None, :]))
        k1, k0 = np.empty(sigma.size), np.empty(sigma.size)
        pairs = CHUNK_ELEMENTS // len(nodes) ** 2
        for start in range(0, sigma.size, pairs):
            part = slice(start, start + pairs)
            rho = correlations[part, None, None]
            a = first[part, None] * nodes
            b = second[part, None, None] * (rho * nodes[:, None] + np.sqrt((1 - rho) * (1 + rho)) * nodes)
            for out, f in ((k1, function), (k0, slope)):
                out[part] = np.einsum("pq,pq,q->p", f(b) @ weights, f(a), weights)
        return k1.reshape(sigma.shape), k0.reshape(sigma.shape)

    return dual

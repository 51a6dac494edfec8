"""NTK and NNGP kernels of fully connected networks with biases and any activation (section 3 of the CNTK paper)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tangentbench.kernels.exact import Kernels, Kind, kinds_of
from tangentbench.kernels.network import InvalidKernelInput, Pointwise, is_finite, is_integer
from tangentbench.shapes import Vectors
from tangentbench.theory.activations import Activation
from tangentbench.theory.activations import activation as named_activation
from tangentbench.theory.pair_quadrature import pair_of

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
    kind: Kind | tuple[str, ...] = "ntk",
) -> Any:
    """The kernel of every row of x1 with every row of x2, or of x1 with itself: float64, (n1, n2).

    The network has `depth` weight layers, h^(l) = weight_std / sqrt(fan in) W f(h^(l-1)) + bias_std b, its output is
    h^(depth) and h^(1) takes the input itself; W and b are standard normal and all are trained. These are the
    conventions of neural-tangents for Dense(W_std, b_std, parameterization="ntk") in every layer. For ReLU,
    weight_std = sqrt(2) and no biases the kernel of section 3, whose input layer is not scaled, is d / 2 times this
    one, d the input's dimension.

    x1, x2: (n, d). kind: as of `exact`. activation: "leaky_relu:0.1", a name or a record of
        tangentbench.theory.activations, exact at every variance where a closed form is known (all but tanh); or an
        object with a numpy `function`, or such a function, by quadrature that states its error and knows `kinks`.
    """
    if not is_integer(depth) or depth < 1:
        raise InvalidKernelInput(f"depth is {depth!r}: it counts the layers of weights, so it is at least 1")
    kinds = kinds_of(kind)
    for name, value in (("weight_std", weight_std), ("bias_std", bias_std)):
        if not is_finite(value):
            raise InvalidKernelInput(f"{name} is {value!r}: it is a finite number")
    first = checked_rows(x1, "x1")
    second = first if x2 is None else checked_rows(x2, "x2")
    dimension = first.shape[1]
    if second.shape[1] != dimension:
        raise InvalidKernelInput(f"x1 has {dimension} features and x2 {second.shape[1]}: they must agree")
    record = record_of(activation)
    if "ntk" in kinds and depth > 1:
        Pointwise(record).refuse_tangent()
    pair = pair_of(record)
    gain, bias = weight_std**2, bias_std**2
    with np.errstate(over="ignore", invalid="ignore"):
        sigma = gain * (first @ second.T) / dimension + bias
        rows, columns = (gain * np.einsum("nd,nd->n", x, x) / dimension + bias for x in (first, second))
        theta = sigma
        for _ in range(depth - 1):
            k1, k0 = pair(sigma, rows[:, None], columns[None, :])
            sigma = gain * k1 + bias
            theta = sigma if k0 is None else sigma + gain * k0 * theta
            rows, columns = (gain * pair(v, v, v)[0] + bias for v in (rows, columns))
    values = {"ntk": theta, "nngp": sigma}
    for name in kinds:
        if not np.isfinite(values[name]).all():
            raise InvalidKernelInput("the kernel leaves the range of float64: bring the inputs nearer to 1")
        if x2 is None:
            values[name] = np.asarray((values[name] + values[name].T) / 2)
    return Kernels(values["ntk"], values["nngp"]) if len(kinds) == 2 else values[kinds[0]]


def checked_rows(x: Any, name: str) -> np.ndarray:
    array = np.asarray(x)
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiub":
        raise InvalidKernelInput(f"{name} has shape {array.shape} and dtype {array.dtype}: it is (n, d), real numbers")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise InvalidKernelInput(f"{name} has NaN or infinite values, first in row {int(bad.argmax())}: leave it out")
    return array


def record_of(activation: Any) -> Activation:
    """The record behind a name, a record, a numpy function or an object with one."""
    if isinstance(activation, str):
        name, colon, parameter = activation.partition(":")
        if name != "leaky_relu" or not colon:
            return named_activation(activation)
        try:
            return named_activation(name, slope=float(parameter))
        except ValueError as error:
            raise InvalidKernelInput(
                f"activation is {activation!r}: the slope of a leaky ReLU is a number, as in leaky_relu:0.1"
            ) from error
    if isinstance(activation, Activation):
        return activation
    function = activation.function if isinstance(activation, ActivationLike) else activation
    if not callable(function):
        raise InvalidKernelInput(f"activation is {activation!r}: give a name, a numpy function or an object with one")

    def slope(x: np.ndarray) -> np.ndarray:
        return np.asarray((function(x + DIFFERENCE_STEP) - function(x - DIFFERENCE_STEP)) / (2 * DIFFERENCE_STEP))

    name = str(getattr(activation, "name", getattr(function, "__name__", "given")))
    derivative = getattr(activation, "derivative", None) or slope
    return Activation(name, name, function, tuple(getattr(activation, "kinks", ())), derivative)

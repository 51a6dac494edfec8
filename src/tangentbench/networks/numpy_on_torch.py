"""Elementwise functions written for numpy, applied to torch tensors where they are.

On the CPU numpy reads the tensor's own memory. On another device the function is given an array of numpy's protocols
(NEP 13 and NEP 18) whose every call is torch's function of the same name; what torch does not have, and what asks for
a plain array, is computed by numpy on the CPU and brought back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tangentbench.device import CPU

TORCH_NAMES = {"power": "pow", "invert": "bitwise_not"}
"""Where torch calls a function of numpy by another name."""
DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


def elementwise(function: Callable[[np.ndarray], np.ndarray], values: Tensor) -> Tensor:
    """function(values) in the precision and on the device of `values`."""
    if values.device.type == CPU:
        return torch.from_numpy(np.asarray(function(values.numpy()), dtype=values.numpy().dtype))
    result: Any = function(TensorArray(values))  # type: ignore[arg-type]
    tensor = result.tensor if isinstance(result, TensorArray) else torch.as_tensor(np.asarray(result))
    return tensor.to(device=values.device, dtype=values.dtype)


def differentiable(function: Callable[[np.ndarray], np.ndarray], values: Tensor) -> Tensor:
    """function(values) by torch's functions alone, on any device, so that torch can differentiate it."""
    result: Any = function(TensorArray(values))  # type: ignore[arg-type]
    tensor: Tensor = result.tensor
    return tensor.to(values.dtype)


class TensorArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor that numpy's elementwise functions take for an array."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        if method != "__call__" or "out" in options:
            return NotImplemented
        return self.applied(ufunc, given, options, self.as_tensor)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        return self.applied(function, given, options, unwrapped)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.tensor.cpu().numpy(), dtype=dtype)

    def applied(
        self, function: Any, given: Any, options: dict[str, Any], converted: Callable[[Any], Any]
    ) -> TensorArray:
        """numpy's `function` of the arguments, by torch's namesake where there is one."""
        name = TORCH_NAMES.get(function.__name__, function.__name__)
        namesake = getattr(torch, name, None) or getattr(torch.special, name, None)
        if namesake is None or options.keys() - {"dtype"}:
            by_numpy = function(*(np.asarray(one) if isinstance(one, TensorArray) else one for one in given), **options)
            return TensorArray(torch.as_tensor(by_numpy).to(self.tensor.device))
        tensors = [converted(one) for one in given]
        if "dtype" in options:
            wanted = DTYPES[np.dtype(options["dtype"])]
            tensors = [one.to(wanted) if isinstance(one, Tensor) else one for one in tensors]
        return TensorArray(namesake(*tensors))

    def as_tensor(self, value: Any) -> Tensor:
        """torch's arithmetic wants tensors; a number becomes one of no axes, which leaves the others' precision."""
        if isinstance(value, TensorArray):
            return value.tensor
        if np.ndim(value):
            return torch.as_tensor(value).to(self.tensor.device)
        return torch.full((), float(value), dtype=torch.float64, device=self.tensor.device)


def unwrapped(value: Any) -> Any:
    return value.tensor if isinstance(value, TensorArray) else value

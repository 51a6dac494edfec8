"""One description of a network: a tuple of layers, each of which brings its own rules.

A layer knows what it does to the size of its maps, to the covariances of an infinitely wide network (Sigma and Theta),
to the signals of a finite one, and what that costs. The exact kernel (exact.py), the finite network (finite.py), its
operations and the key of a matrix on disk (`description`) all come from here. Weights and biases are N(0, 1) times
sqrt(weight_variance / fan-in) and sqrt(bias_variance): neural-tangents' parametrisation "ntk". With the window
sums of a convolution, and without them for a dense layer,

    Sigma' = weight_variance * sum(Sigma) / filter^2 + bias_variance
    Theta' = weight_variance * sum(Theta) / filter^2 + Sigma'       (no Sigma' where the layer is frozen)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from tangentbench.errors import TangentbenchError
from tangentbench.theory.activations import Activation, activation

if TYPE_CHECKING:
    from torch import Tensor

Size = tuple[int, int]
Shapes = Iterator[tuple[str, tuple[int, ...]]]
ACTIVATION_OPERATIONS = 32
"""Both duals of a ReLU at one pair of positions: a square root, a polynomial of degree 8 and 14 others."""


class InvalidKernelInput(TangentbenchError):
    """Images, networks or settings from which no kernel can be computed."""


@dataclass(frozen=True)
class Covariances:
    """Sigma, Theta and the part of Theta that hangs on doubtful angles; None is what was not asked for."""

    sigma: Any
    theta: Any = None
    doubt: Any = None

    def mapped(self, change: Callable[[Any], Any]) -> Covariances:
        return Covariances(*(None if maps is None else change(maps) for maps in (self.sigma, self.theta, self.doubt)))

    def plus(self, other: Covariances) -> Covariances:
        both = zip((self.sigma, self.theta, self.doubt), (other.sigma, other.theta, other.doubt), strict=True)
        return Covariances(*(None if one is None else one + two for one, two in both))


class Maths(Protocol):
    """How a backend holds covariances: maps over pairs of positions, or single numbers behind them."""

    def window_sum(self, maps: Any, layer: Convolution) -> Any: ...
    def window_mean(self, maps: Any, layer: AveragePool) -> Any: ...
    def mean_of_all(self, maps: Any) -> Any: ...
    def mean_of_equal(self, maps: Any) -> Any: ...
    def activated(self, state: Covariances, layer: ActivationLayer) -> Covariances: ...


class Layer:
    """A layer without weights that leaves sizes, channels and covariances alone; every layer changes some of it."""

    operation: ClassVar[str]
    ends_positions: ClassVar[bool] = False
    needs_positions: ClassVar[bool] = True
    bias_variance: float = 0.0

    def size_after(self, size: Size) -> Size:
        return size

    def channels_after(self, channels: int, size: Size) -> int:
        return channels

    def gaussian_after(self, gaussian: bool, size: Size) -> bool:
        """Whether what comes out is Gaussian, so that an activation may follow; refuses what has no analytic kernel."""
        return gaussian

    def refuse_tangent(self) -> None:
        """An error where the layer's tangent kernel is infinite."""

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        raise NotImplementedError

    def weight_shapes(self, name: str, channels: int, size: Size) -> Shapes:
        """The weights of the finite network."""
        yield from ()

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        """The finite layer on (n, channels, height, width), or (n, channels) where positions have ended."""
        raise NotImplementedError

    def forward_operations(self, size: Size, channels: int) -> float:
        """Of the finite layer on one image; a multiplication and an addition are two."""
        return 0.0

    def pair_operations(self, size: Size, maps: int) -> float:
        """Of one entry of the exact kernel, with Sigma alone (maps = 1) or Theta beside it (2)."""
        return 0.0

    def orders(self, size: Size) -> float:
        """Binary orders that variances gain, or lose to the zeros around an image, in a layer on maps of this size."""
        return 0.0

    def described(self) -> dict[str, Any]:
        """What decides the exact kernel (widths do not), in plain numbers and words."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        kept = {name: plain(value) for name, value in values.items() if name not in ("channels", "units")}
        return {"operation": self.operation, **kept}

    def inner(self) -> tuple[tuple[Layer, ...], ...]:
        """The branches of a layer that is made of others."""
        return ()

    @property
    def homogeneous(self) -> bool:
        """Whether the layer carries a positive factor of its input through, so that images may be rescaled."""
        return self.bias_variance == 0


Network: TypeAlias = tuple[Layer, ...]


class Weighted(Layer):
    """A layer of weights, and biases where their variance is not zero."""

    weight_variance: float
    trained: bool

    def gaussian_after(self, gaussian: bool, size: Size) -> bool:
        return True

    def with_own_weights(self, sums: Covariances, fan: int) -> Covariances:
        factor = self.weight_variance / fan
        sigma = sums.sigma * factor + self.bias_variance
        if sums.theta is None:
            return Covariances(sigma)
        theta = sums.theta * factor + sigma if self.trained else sums.theta * factor
        return Covariances(sigma, theta, None if sums.doubt is None else sums.doubt * factor)

    def shapes(self, name: str, shape: tuple[int, ...]) -> Shapes:
        yield name, shape
        if self.bias_variance:
            yield f"{name}_bias", shape[:1]

    def scaled(self, weights: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor | None]:
        """Weights and biases as they stand in the network, from standard normal ones."""
        weight = weights[name]
        bias = math.sqrt(self.bias_variance) * weights[f"{name}_bias"] if self.bias_variance else None
        return math.sqrt(self.weight_variance / math.prod(weight.shape[1:])) * weight, bias


@dataclass(frozen=True)
class Convolution(Weighted):
    """`filter` x `filter`, padded with zeros so that the output has ceil(side / stride) positions per side."""

    operation: ClassVar[str] = "convolution"
    filter: int = 3
    stride: int = 1
    channels: int = 64
    weight_variance: float = 2.0
    bias_variance: float = 0.0
    trained: bool = True

    def __post_init__(self) -> None:
        if not is_integer(self.filter) or self.filter < 1 or self.filter % 2 == 0:
            raise InvalidKernelInput(f"filter is {self.filter!r}: it is a side with a middle, 1, 3, 5, ...")
        _check_positive(stride=self.stride, channels=self.channels)
        _check_weights(self)

    def size_after(self, size: Size) -> Size:
        return -(-size[0] // self.stride), -(-size[1] // self.stride)

    def channels_after(self, channels: int, size: Size) -> int:
        return self.channels

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return self.with_own_weights(state.mapped(lambda maps: maths.window_sum(maps, self)), self.filter**2)

    def orders(self, size: Size) -> float:
        """The largest eigenvalue of the window sum over maps with zeros around them, over the window."""
        reached = [sum(math.cos(math.pi * k / (side + 1)) for k in self._offsets(side)) for side in size]
        grown = self.weight_variance * math.prod(reached) / self.filter**2
        return math.log2(grown) if grown > 0 and not self.bias_variance else 0.0

    def _offsets(self, side: int) -> range:
        reach = min(self.filter // 2, side - 1)
        return range(-reach, reach + 1)

    def weight_shapes(self, name: str, channels: int, size: Size) -> Shapes:
        yield from self.shapes(name, (self.channels, channels, self.filter, self.filter))

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        import torch.nn.functional as F

        weight, bias = self.scaled(weights, name)
        return F.conv2d(padded(x, self.filter, self.stride), weight, bias, stride=self.stride)

    def forward_operations(self, size: Size, channels: int) -> float:
        height, width = self.size_after(size)
        return 2.0 * height * width * self.channels * channels * self.filter**2

    def pair_operations(self, size: Size, maps: int) -> float:
        return _pairs(size) * (maps * (2 * (self.filter - 1) + 1) + maps - 1)


@dataclass(frozen=True)
class Dense(Weighted):
    """Behind the layer that ends the positions."""

    operation: ClassVar[str] = "dense"
    needs_positions: ClassVar[bool] = False
    units: int = 1
    weight_variance: float = 1.0
    bias_variance: float = 0.0
    trained: bool = True

    def __post_init__(self) -> None:
        _check_positive(units=self.units)
        _check_weights(self)

    def channels_after(self, channels: int, size: Size) -> int:
        return self.units

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return self.with_own_weights(state, 1)

    def weight_shapes(self, name: str, channels: int, size: Size) -> Shapes:
        yield from self.shapes(name, (self.units, channels))

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        weight, bias = self.scaled(weights, name)
        return x @ weight.mT if bias is None else x @ weight.mT + bias

    def forward_operations(self, size: Size, channels: int) -> float:
        return 2.0 * channels * self.units


class ActivationLayer(Layer):
    operation: ClassVar[str] = "activation"
    needs_positions: ClassVar[bool] = False
    slope: float | None
    """Of the negative side of a (leaky) ReLU; None for every other activation."""

    @property
    def record(self) -> Activation:
        raise NotImplementedError

    @property
    def homogeneous(self) -> bool:
        return self.slope is not None

    def gaussian_after(self, gaussian: bool, size: Size) -> bool:
        if not gaussian:
            raise InvalidKernelInput(
                f"{self.record.label} needs a convolution or a dense layer before it: put one there"
            )
        return False

    def refuse_tangent(self) -> None:
        if self.record.derivative is None:
            raise InvalidKernelInput(
                f"the activation {self.record.name} jumps, so its tangent kernel is infinite: ask for kind='nngp'"
            )

    def orders(self, size: Size) -> float:
        return 0.0 if self.slope is None else math.log2((1.0 + self.slope**2) / 2)

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return maths.activated(state, self)

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        import torch

        if self.slope is not None:
            return torch.where(x > 0, x, self.slope * x) if self.slope else torch.relu(x)
        from tangentbench.networks.numpy_on_torch import differentiable

        return differentiable(self.record.function, x)

    def forward_operations(self, size: Size, channels: int) -> float:
        return float(size[0] * size[1] * channels)

    def pair_operations(self, size: Size, maps: int) -> float:
        return _pairs(size) * (ACTIVATION_OPERATIONS + maps - 1)

    def described(self) -> dict[str, Any]:
        if self.slope == 0:
            return {"operation": self.operation, "name": "relu"}
        parameters = {name: plain(value) for name, value in self.record.parameters.items()}
        return {"operation": self.operation, "name": self.record.name, **parameters}


@dataclass(frozen=True)
class Relu(ActivationLayer):
    slope: ClassVar[float] = 0.0  # type: ignore[misc]

    @property
    def record(self) -> Activation:
        return activation("relu")


@dataclass(frozen=True)
class LeakyRelu(ActivationLayer):
    slope: float

    def __post_init__(self) -> None:
        if not is_finite(self.slope):
            raise InvalidKernelInput(f"the slope of a leaky ReLU is {self.slope!r}: it is a finite number")

    @property
    def record(self) -> Activation:
        return activation("leaky_relu", slope=float(self.slope))


@dataclass(frozen=True)
class Pointwise(ActivationLayer):
    """Any activation of tangentbench.theory.activations, or one of your own as such a record."""

    function: Activation
    slope: ClassVar[None] = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not isinstance(self.function, Activation):
            raise InvalidKernelInput(f"the activation is {self.function!r}: give a record of theory.activations")

    def __reduce__(self) -> tuple[Any, ...]:
        return pointwise, (self.function.name, dict(self.function.parameters))

    @property
    def record(self) -> Activation:
        return self.function


def pointwise(name: str, parameters: Mapping[str, float]) -> ActivationLayer:
    """The layer of an activation of theory.activations by its name."""
    return Pointwise(activation(name, **parameters))


@dataclass(frozen=True)
class AveragePool(Layer):
    """Means of `window` x `window` positions. `padded`: with zeros as for a convolution, which count in the mean.

    An odd window with stride 1 and padding, in front of Flatten, is the local average pooling of Li et al. 2019.
    """

    operation: ClassVar[str] = "average_pool"
    window: int = 2
    stride: int = 2
    padded: bool = False

    def __post_init__(self) -> None:
        _check_positive(window=self.window, stride=self.stride)
        _check_truth(padded=self.padded)

    def size_after(self, size: Size) -> Size:
        if self.padded:
            return -(-size[0] // self.stride), -(-size[1] // self.stride)
        return (size[0] - self.window) // self.stride + 1, (size[1] - self.window) // self.stride + 1

    def gaussian_after(self, gaussian: bool, size: Size) -> bool:
        if min(self.size_after(size)) < 1:
            raise InvalidKernelInput(f"no position is left after pooling by {self.window}: give larger images")
        return gaussian

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return state.mapped(lambda maps: maths.window_mean(maps, self))

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        import torch.nn.functional as F

        return F.avg_pool2d(padded(x, self.window, self.stride) if self.padded else x, self.window, self.stride)

    def forward_operations(self, size: Size, channels: int) -> float:
        height, width = self.size_after(size)
        return float(height * width * channels * self.window**2)

    def pair_operations(self, size: Size, maps: int) -> float:
        return _pairs(size) * maps * 2


@dataclass(frozen=True)
class GlobalAveragePool(Layer):
    operation: ClassVar[str] = "global_average_pool"
    ends_positions: ClassVar[bool] = True

    def size_after(self, size: Size) -> Size:
        return 1, 1

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return state.mapped(maths.mean_of_all)

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        return x.mean(dim=(-2, -1))

    def forward_operations(self, size: Size, channels: int) -> float:
        return float(size[0] * size[1] * channels)

    def pair_operations(self, size: Size, maps: int) -> float:
        return _pairs(size) * maps


@dataclass(frozen=True)
class Flatten(Layer):
    operation: ClassVar[str] = "flatten"
    ends_positions: ClassVar[bool] = True

    def size_after(self, size: Size) -> Size:
        return 1, 1

    def channels_after(self, channels: int, size: Size) -> int:
        return channels * size[0] * size[1]

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return state.mapped(maths.mean_of_equal)

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        return x.flatten(1)


@dataclass(frozen=True)
class Residual(Layer):
    """The sum of two branches with independent weights."""

    operation: ClassVar[str] = "residual"
    main: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        for name in ("main", "shortcut"):
            object.__setattr__(self, name, layers_of(getattr(self, name)))
        for layer in flat(self.inner()[0] + self.inner()[1]):
            if layer.ends_positions or layer.operation == "dense":
                raise InvalidKernelInput(
                    f"{type(layer).__name__} stands in a branch of a sum, where positions go on: put it behind the sum"
                )

    def inner(self) -> tuple[tuple[Layer, ...], ...]:
        return self.main, self.shortcut

    def size_after(self, size: Size) -> Size:
        return size_behind(self.main, size)

    def channels_after(self, channels: int, size: Size) -> int:
        return _behind(self.main, size, channels)[1]

    def gaussian_after(self, gaussian: bool, size: Size) -> bool:
        ends = [gaussian_behind(branch, size, gaussian) for branch in self.inner()]
        sizes = [size_behind(branch, size) for branch in self.inner()]
        if sizes[0] != sizes[1]:
            raise InvalidKernelInput(f"branches of sizes {sizes[0]} and {sizes[1]} cannot be added")
        if not all(ends):
            raise InvalidKernelInput("both branches of a sum have to end in weights, or the sum is not Gaussian")
        return True

    @property
    def homogeneous(self) -> bool:
        return all(layer.homogeneous for branch in self.inner() for layer in branch)

    def orders(self, size: Size) -> float:
        return max(sum(orders_behind(branch, size), 0.0) for branch in self.inner())

    def covariances(self, state: Covariances, maths: Maths) -> Covariances:
        return propagated(self.main, state, maths).plus(propagated(self.shortcut, state, maths))

    def weight_shapes(self, name: str, channels: int, size: Size) -> Shapes:
        yield from weight_shapes(self.main, size, channels, f"{name}_main")
        yield from weight_shapes(self.shortcut, size, channels, f"{name}_shortcut")

    def forward(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        main = through(self.main, weights, x, f"{name}_main")
        return main + through(self.shortcut, weights, x, f"{name}_shortcut")

    def forward_operations(self, size: Size, channels: int) -> float:
        height, width = self.size_after(size)
        both = sum(_forward_operations(branch, size, channels) for branch in self.inner())
        return both + height * width * self.channels_after(channels, size)

    def pair_operations(self, size: Size, maps: int) -> float:
        both = sum(_pair_operations(branch, size, maps) for branch in self.inner())
        return both + maps * _pairs(self.size_after(size))

    def described(self) -> dict[str, Any]:
        main, shortcut = ([layer.described() for layer in branch] for branch in self.inner())
        return {"operation": self.operation, "main": main, "shortcut": shortcut}


def layers_of(network: Any) -> Network:
    """A network as a tuple of layers, or one sentence."""
    if not isinstance(network, Sequence) or isinstance(network, str):
        raise InvalidKernelInput(f"network is {network!r}: it is a list of layers, such as myrtle() gives")
    for layer in network:
        if not isinstance(layer, Layer):
            raise InvalidKernelInput(f"the network holds {layer!r}: its elements are layers of kernels.network")
    return tuple(network)


def parts(network: Sequence[Layer]) -> tuple[Network, Layer, Network]:
    """What comes before the positions end, the layer that ends them, what comes after."""
    at = next(number for number, layer in enumerate(network) if layer.ends_positions)
    return tuple(network[:at]), network[at], tuple(network[at + 1 :])


def checked(network: Any, height: int, width: int) -> Network:
    """The network, if its kernel is analytic on images of this size; InvalidKernelInput with the reason otherwise."""
    layers = layers_of(network)
    gathers = sum(layer.ends_positions for layer in layers)
    if gathers != 1:
        raise InvalidKernelInput(f"the network has {gathers} layers that end the positions (one is needed)")
    trunk, _, head = parts(layers)
    if any(layer.operation == "dense" for layer in trunk) or any(layer.needs_positions for layer in head):
        raise InvalidKernelInput("Dense comes after the layer that ends the positions, and only activations beside it")
    if not head or head[-1].operation != "dense":
        raise InvalidKernelInput("after the positions have ended come Dense and activations, and Dense is last")
    gaussian_behind(layers, (height, width), False)
    return layers


def gaussian_behind(layers: Sequence[Layer], size: Size, gaussian: bool) -> bool:
    for layer in layers:
        gaussian = layer.gaussian_after(gaussian, size)
        size = layer.size_after(size)
    return gaussian


def size_behind(layers: Sequence[Layer], size: Size) -> Size:
    for layer in layers:
        size = layer.size_after(size)
    return size


def orders_behind(layers: Sequence[Layer], size: Size) -> list[float]:
    """What each layer adds to the binary order of the variances."""
    found = []
    for layer in layers:
        found.append(layer.orders(size))
        size = layer.size_after(size)
    return found


def _behind(layers: Sequence[Layer], size: Size, channels: int) -> tuple[Size, int]:
    for layer in layers:
        size, channels = layer.size_after(size), layer.channels_after(channels, size)
    return size, channels


def propagated(layers: Sequence[Layer], state: Covariances, maths: Maths) -> Covariances:
    for layer in layers:
        state = layer.covariances(state, maths)
    return state


def flat(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Every layer, those of branches in the place of the layer that is made of them."""
    for layer in layers:
        branches = layer.inner()
        yield from (one for branch in branches for one in flat(branch)) if branches else (layer,)


def mixes_positions(trunk: Sequence[Layer]) -> bool:
    """Whether equal positions of two images depend on unequal ones: pooling does that."""
    return any(layer.operation == "average_pool" for layer in flat(trunk))


def description(network: Sequence[Layer]) -> dict[str, Any]:
    """The network in plain words and numbers that decide its exact kernel: the same for the same kernel's network."""
    return {"layers": [layer.described() for layer in layers_of(network)]}


def plain(value: Any) -> bool | int | float:
    """A number as JSON knows it: 2 and 2.0 and numpy's are one."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return int(value) if is_integer(value) else float(value)


def weight_shapes(layers: Sequence[Layer], size: Size, channels: int, path: str = "layer") -> Shapes:
    """The finite network's weights by name, for images of `size` = (height, width) with `channels` channels."""
    for number, layer in enumerate(layers):
        yield from layer.weight_shapes(f"{path}_{number}", channels, size)
        size, channels = layer.size_after(size), layer.channels_after(channels, size)


def through(layers: Sequence[Layer], weights: Mapping[str, Tensor], x: Tensor, path: str = "layer") -> Tensor:
    """The finite network's outputs (n, units) for images (n, channels, height, width)."""
    for number, layer in enumerate(layers):
        x = layer.forward(x, weights, f"{path}_{number}")
    return x


def forward_operations(network: Sequence[Layer], height: int, width: int, channels: int) -> float:
    """Floating-point operations of the finite network on one image; a multiplication and an addition are two."""
    return _forward_operations(network, (height, width), channels)


def _forward_operations(layers: Sequence[Layer], size: Size, channels: int) -> float:
    total = 0.0
    for layer in layers:
        total += layer.forward_operations(size, channels)
        size, channels = layer.size_after(size), layer.channels_after(channels, size)
    return total


def covariance_operations(network: Sequence[Layer], height: int, width: int, channels: int, *, tangent: bool) -> float:
    """Of one entry of the exact kernel with all offsets; networks that flatten without pooling before take less."""
    first = 2.0 * channels * _pairs((height, width))
    return first + _pair_operations(network, (height, width), 2 if tangent else 1)


def _pair_operations(layers: Sequence[Layer], size: Size, maps: int) -> float:
    total = 0.0
    for layer in layers:
        total += layer.pair_operations(size, maps)
        size = layer.size_after(size)
    return total


def _pairs(size: Size) -> float:
    return float(size[0] * size[1]) ** 2


def padding(side: int, window: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, for ceil(side / stride) windows (the convention called SAME)."""
    total = max((-(-side // stride) - 1) * stride + window - side, 0)
    return total // 2, total - total // 2


def padded(x: Tensor, window: int, stride: int) -> Tensor:
    import torch.nn.functional as F

    top, bottom = padding(x.shape[-2], window, stride)
    left, right = padding(x.shape[-1], window, stride)
    return F.pad(x, (left, right, top, bottom)) if any((top, bottom, left, right)) else x


def is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool | np.bool_)


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _check_positive(**values: Any) -> None:
    for name, value in values.items():
        if not is_integer(value) or value < 1:
            raise InvalidKernelInput(f"{name} is {value!r}: it is an integer of at least 1")


def _check_truth(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidKernelInput(f"{name} is {value!r}: it is True or False")


def _check_weights(layer: Weighted) -> None:
    for name in ("weight_variance", "bias_variance"):
        value = getattr(layer, name)
        if not is_finite(value) or value < 0:
            raise InvalidKernelInput(f"{name} is {value!r}: a variance is a finite number and not negative")
        object.__setattr__(layer, name, float(value))
    _check_truth(trained=layer.trained)

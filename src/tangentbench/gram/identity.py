"""What a kernel matrix is: one network, written out in full, whoever asks for it and however it was abbreviated.

Settings that were left out are filled in, `myrtle` and `resnet50` become their layers, widths (which an infinitely wide
network does not have) are dropped. So two plans have the same key if and only if they mean the same matrix on the same
images, and another pooling can never be taken for the old one. How it is computed (backend, threads) does not count.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tangentbench.errors import TangentbenchError, UnfitArray, UnknownName
from tangentbench.kernels.architectures import myrtle, resnet50
from tangentbench.kernels.dense import ntk
from tangentbench.kernels.exact import cntk, exact
from tangentbench.kernels.network import (
    ActivationLayer,
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    LeakyRelu,
    Network,
    Relu,
    Residual,
    layers_of,
    pointwise,
)

LAYERS = "layers"
"""The name of a kernel that is given by its layers."""
KERNELS: dict[str, Callable[..., Any]] = {"cntk": cntk, "ntk": ntk, LAYERS: exact}
NETWORKS: dict[str, Callable[..., Network]] = {"myrtle": myrtle, "resnet50": resnet50}
NOT_SETTINGS = {"x1", "x2", "computing", "choices"}
"""How a kernel is computed, which must not change what is computed."""
KINDS_OF_LAYERS: dict[str, type[Any]] = {
    one.__name__: one
    for one in (AveragePool, Convolution, Dense, Flatten, GlobalAveragePool, LeakyRelu, Relu, Residual)
}
ACTIVATION = "Activation"
"""The layer of an activation by its name, which Relu and LeakyRelu are short for."""
WIDTHS = ("channels", "units")

KernelLike = Mapping[str, Any] | Sequence[Layer]
"""Settings, {"name": "cntk", "depth": 6, ...}, or the layers of a network."""


def identity(kernel: KernelLike) -> dict[str, Any]:
    """The kernel in full, as JSON values; an unknown name or setting is an error."""
    if not isinstance(kernel, Mapping):
        return {"name": LAYERS, "kind": "ntk", "network": description(kernel)}
    wanted = as_json(kernel)
    name = wanted.pop("name", None)
    if name in NETWORKS:
        kind = wanted.pop("kind", "ntk")
        _require_known(name, wanted, NETWORKS[name])
        return {"name": LAYERS, "kind": kind, "network": description(NETWORKS[name](**wanted))}
    if name not in KERNELS:
        raise UnknownName("kernel", str(name), [*KERNELS, *NETWORKS])
    full = {**_require_known(name, wanted, KERNELS[name]), **wanted}
    if name == LAYERS:
        full["network"] = description(network_of(full["network"]) if full["network"] else myrtle())
    if name == "cntk" and full["train_first_last"] is None:
        full["train_first_last"] = full["pooling"] == "flatten"
    return as_json({"name": name, **full})


def is_known(kernel: KernelLike) -> bool:
    """Whether the settings name a kernel of this package; others are the caller's own functions."""
    return not isinstance(kernel, Mapping) or kernel.get("name") in (*KERNELS, *NETWORKS)


def key(kernel: KernelLike, precision: str = "float32") -> str:
    """cntk-flatten-depth4-0123456789ab: the identity as a piece of a path, readable as far as it is short."""
    full = identity(kernel)
    words = [full["name"], full.get("pooling"), f"depth{full['depth']}" if "depth" in full else None]
    digest = hashlib.sha256(f"{canonical(full)} {precision}".encode()).hexdigest()[:12]
    return "-".join([*(str(word) for word in words if word), digest])


def description(network: Sequence[Layer]) -> list[dict[str, Any]]:
    """The layers in plain words and numbers that decide the exact kernel."""
    return [_described(layer) for layer in layers_of(network)]


def _described(layer: Layer) -> dict[str, Any]:
    if isinstance(layer, ActivationLayer):
        return {
            "layer": ACTIVATION,
            **{name: value for name, value in layer.described().items() if name != "operation"},
        }
    values = {field.name: getattr(layer, field.name) for field in fields(layer) if field.name not in WIDTHS}  # type: ignore[arg-type]
    plain = {
        name: [_described(one) for one in value] if isinstance(value, tuple) else value
        for name, value in values.items()
    }
    return {"layer": type(layer).__name__, **plain}


def network_of(layers: Sequence[Mapping[str, Any]]) -> Network:
    """The layers behind a description."""
    return tuple(_layer(one) for one in layers)


def _layer(described: Mapping[str, Any]) -> Layer:
    values = dict(described)
    name = str(values.pop("layer", None))
    if name == ACTIVATION:
        return _activation(str(values.pop("name", None)), values)
    if name not in KINDS_OF_LAYERS:
        raise UnknownName("layer", name, [*KINDS_OF_LAYERS, ACTIVATION])
    plain = {key: network_of(value) if isinstance(value, list | tuple) else value for key, value in values.items()}
    try:
        layer: Layer = KINDS_OF_LAYERS[name](**plain)
    except TypeError:
        known = ", ".join(field.name for field in fields(KINDS_OF_LAYERS[name]))
        raise TangentbenchError(f"the layer {name} does not have all of {', '.join(plain)}: it has {known}") from None
    return layer


def _activation(name: str, parameters: Mapping[str, Any]) -> ActivationLayer:
    if name == "relu":
        return Relu()
    return LeakyRelu(**parameters) if name == "leaky_relu" else pointwise(name, parameters)


def _require_known(name: str, wanted: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a kernel's settings, after a look at those that were given."""
    known = {one.name: one.default for one in inspect.signature(function).parameters.values()}
    known = {setting: default for setting, default in known.items() if setting not in NOT_SETTINGS}
    if unknown := sorted(set(wanted) - set(known)):
        has = ", ".join(sorted(known))
        raise TangentbenchError(f"the kernel {name} has no setting {', '.join(unknown)}: it has {has}")
    if missing := [one for one, default in known.items() if default is inspect.Parameter.empty and one not in wanted]:
        raise TangentbenchError(f"the kernel {name} needs a setting {', '.join(missing)}: give it")
    return known


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def as_json(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they will be read back from a manifest."""
    try:
        settings: dict[str, Any] = json.loads(canonical(dict(kernel)))
    except (TypeError, ValueError) as error:
        raise UnfitArray(f"the kernel's settings cannot be written as JSON ({error}): give plain values") from error
    return settings

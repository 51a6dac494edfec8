"""Deep networks at the start: sizes, norms that stay, Fixup's zero output, and errors for what does not exist."""

from typing import Any

import numpy as np
import pytest
import torch

from tangentbench.errors import UnknownName
from tangentbench.networks.deep_architecture import KINDS, NORMALISATIONS, DeepArchitecture
from tangentbench.networks.resnets import FullyConnected, NormReLU, ResNet, SeLU, build, parameter_count
from tangentbench.theory.activations import activation


def signal(*shape: Any) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def resnet(depth: Any, channels: Any, normalisation: Any, seed: int = 0, **others: Any) -> Any:
    return ResNet(DeepArchitecture("resnet", depth, channels, normalisation, (3, 16, 16), 10, **others), seed)


def fully_connected(inputs: Any, width: Any, depth: Any, normalisation: Any, fan: Any) -> Any:
    return FullyConnected(DeepArchitecture("fc", depth, width, normalisation, (1, 1, inputs), 10, fan))


@pytest.mark.parametrize(
    ("ours", "theory"), [(NormReLU(), activation("norm_relu", c=-1.5975)), (SeLU(), activation("selu"))]
)
def test_activations_are_those_of_the_theory(ours: Any, theory: Any) -> None:
    x = np.linspace(-4, 4, 41)
    np.testing.assert_allclose(ours(torch.from_numpy(x)), theory(x), atol=1e-13)


@pytest.mark.parametrize(("depth", "parameters"), [(20, 269_722), (32, 464_154), (110, 1_727_962)])
def test_resnets_have_their_known_number_of_parameters(depth: int, parameters: int) -> None:
    assert parameter_count(resnet(depth, 16, "batch_norm")) == parameters


def test_without_normalisation_only_its_two_numbers_per_channel_are_missing() -> None:
    """31 convolutions of ResNet-32 have 16, 32 or 64 channels, each with a scale and a shift less."""
    missing = 2 * (11 * 16 + 10 * 32 + 10 * 64)
    assert parameter_count(resnet(32, 16, "norm_relu")) == 464_154 - missing
    assert parameter_count(resnet(32, 16, "layer_norm")) == 464_154
    # five scalars per block, one after the first convolution and one before the read-out
    assert parameter_count(resnet(32, 16, "fixup")) == 464_154 - missing + 5 * 15 + 2


@pytest.mark.parametrize("normalisation", ["norm_relu", "selu", "layer_norm"])
def test_norms_stay_in_a_deep_fully_connected_net(normalisation: str) -> None:
    net = fully_connected(100, 400, 32, normalisation, fan="fan_in").eval()
    x = signal(50, 100)
    for layer in net.layers:
        x = layer(x).detach()
        second = float(x.square().mean())
        # ReLU leaves half of a normalised signal
        assert 0.85 < (2 * second if normalisation == "layer_norm" else second) < 1.15


def test_depth_pulls_inputs_apart_as_the_kernel_says() -> None:
    """Two inputs of correlation 0.8 through 32 layers of NormReLU."""
    x, other = signal(20, 300), torch.randn(20, 300, generator=torch.Generator().manual_seed(2))
    net = fully_connected(300, 1500, 32, "norm_relu", fan="fan_in")
    with torch.no_grad():
        a, b = net.representation(x), net.representation(0.8 * x + 0.6 * other)
    dual, rho = activation("norm_relu", c=-1.5975).dual, np.array(0.8)
    for _ in range(32):
        rho = dual(rho)  # type: ignore[misc]
    assert float(torch.cosine_similarity(a, b).mean()) == pytest.approx(float(rho), abs=0.06)


def test_resnet_with_norm_relu_keeps_its_signal_where_sums_are_scaled() -> None:
    """Through the first stage; later ones start with a shortcut half of whose channels are zero."""
    x = signal(2, 3, 32, 32)
    kept = []
    for skip_scale in (0.5**0.5, 1.0):
        net = resnet(32, 16, "norm_relu", fan="fan_in", skip_scale=skip_scale)
        with torch.no_grad():
            kept.append(float(net.blocks[:5](net.stem(x)).square().mean()))
    assert 0.6 < kept[0] < 1.4
    assert kept[1] > 4.0


def test_fixup_starts_at_zero_and_its_blocks_are_shortcuts() -> None:
    net, x = resnet(20, 8, "fixup"), signal(4, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(net(x), torch.zeros(4, 10))
        hidden = net.stem(x)
        assert torch.equal(net.blocks[0](hidden), hidden)


@pytest.mark.parametrize("normalisation", ["batch_norm", "layer_norm", "norm_relu", "selu", "fixup"])
def test_outputs_have_their_shape_and_gradients_arrive(normalisation: str) -> None:
    net, x = resnet(8, 4, normalisation), signal(6, 3, 16, 16)
    assert net.representation(x).shape == (6, 16)
    torch.nn.functional.cross_entropy(net(x), torch.arange(6)).backward()  # type: ignore[no-untyped-call]
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())
    assert net.read_out.weight.grad.abs().sum() > 0


def test_the_seed_gives_the_weights_and_the_fan_their_variance() -> None:
    one, same, other = (resnet(8, 16, "norm_relu", seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["stem.0.weight"], other["stem.0.weight"])
    for fan, channels in (("fan_out", 600), ("fan_in", 200)):
        weight = fully_connected(200, 600, 1, "norm_relu", fan=fan).layers[0][0].weight
        assert float(weight.detach().square().mean()) == pytest.approx(1 / channels, rel=0.03)


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownName, match="group_norm"):
        resnet(8, 4, "group_norm")
    with pytest.raises(UnknownName, match="fan_both"):
        fully_connected(4, 4, 1, "selu", fan="fan_both")
    with pytest.raises(ValueError, match="6 k"):
        resnet(31, 4, "batch_norm")
    with pytest.raises(ValueError, match="Fixup"):
        fully_connected(4, 4, 1, "fixup", fan="fan_in")
    with pytest.raises(ValueError, match="3 channels"):
        DeepArchitecture("resnet", 8, 4, "selu", (1, 28, 28), 10)


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_description_counts_what_the_network_has(kind: Any, normalisation: Any) -> None:
    """Parameters, and by hooks on the layers of weights their multiplications and the values they put out."""
    if (kind, normalisation) == ("fc", "fixup"):
        return
    depth = 3 if kind == "fc" else 14
    architecture = DeepArchitecture(kind, depth, 4, normalisation, (3, 10, 12), 7)
    net = build(architecture, 0).eval()
    counted = []

    def count(module: Any, _: Any, output: Any) -> None:
        counted.append((module.weight.numel() * output[0, 0].numel(), output[0].numel()))

    for module in net.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d):
            module.register_forward_hook(count)
    net(signal(2, 3, 10, 12))
    layers = [*architecture.hidden_layers(), architecture.read_out()]
    assert counted == [(layer.multiplications, layer.values) for layer in layers]
    assert architecture.parameters == parameter_count(net)
    assert architecture.hidden_values == sum(values for _, values in counted[:-1])

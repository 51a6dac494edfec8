"""The parameters of many runs of one architecture, stacked along a leading run axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from tangentbench.device import CPU, current

Shape = tuple[int, ...]


class Stack:
    """Named tensors (R, *shape); with `tracked` each has a gradient buffer `.grad` that lives as long as it does.

    Every tensor is contiguous, as batched products need it. What is stored or handed on is `rows()`, a matrix with all
    parameters of one run per row, always on the CPU.
    """

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        runs: int,
        *,
        tracked: bool,
        overwritten: Iterable[str] = (),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`overwritten` names tensors whose gradient a backward pass replaces; the others' must be zeroed before it."""
        self.shapes = dict(shapes)
        self.tracked = tracked
        self.overwritten = frozenset(overwritten)
        self.runs = runs
        self.dtype = dtype
        self._hold({name: torch.zeros(runs, *shape, dtype=dtype) for name, shape in self.shapes.items()})

    def _hold(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        if self.tracked:
            for tensor in tensors.values():
                tensor.requires_grad_()
                tensor.grad = torch.zeros_like(tensor)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def zero_gradients(self) -> None:
        for name, tensor in self.tensors.items():
            if name not in self.overwritten and tensor.grad is not None:
                tensor.grad.zero_()

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with the runs at these places only."""
        self.runs = len(slots)
        self._hold({name: tensor.detach()[list(slots)] for name, tensor in self.tensors.items()})

    def rows(self) -> Tensor:
        """A copy of all parameters, (R, P), in the order of `shapes`."""
        return join_rows(self.tensors, self.runs).cpu()

    def to(self, device: torch.device | str) -> None:
        """Move the tensors; gradient buffers are made anew on the device."""
        if any(tensor.device != torch.device(device) for tensor in self.tensors.values()):
            self._hold({name: tensor.detach().to(device) for name, tensor in self.tensors.items()})

    def load(self, rows: Tensor) -> None:
        """Take the parameters from `rows` (R, P) of a stack of the same shapes."""
        with torch.no_grad():
            for name, values in split_rows(rows, self.shapes).items():
                self.tensors[name].copy_(values)

    def of_run(self, slot: int) -> dict[str, Tensor]:
        """One run's tensors, without the run axis and without gradients."""
        return {name: tensor[slot].detach() for name, tensor in self.tensors.items()}


@contextmanager
def on_device(nets: object) -> Iterator[torch.device]:
    """Move networks to the process's device for the duration of the block, and back to the CPU after it."""
    place = current()
    move(nets, place)
    try:
        yield place
    finally:
        move(nets, CPU)


def move(nets: object, device: torch.device | str) -> None:
    """Move every stack and tensor, or list of tensors, that networks hold as attributes.

    Calls `moved()` on the networks if defined. A tensor that collects gradients goes on doing so, with an empty buffer.
    """
    for name, value in list(vars(nets).items()):
        if isinstance(value, Stack):
            value.to(device)
        elif isinstance(value, Tensor):
            setattr(nets, name, _moved(value, device))
        elif isinstance(value, list) and all(isinstance(one, Tensor) for one in value):
            setattr(nets, name, [_moved(one, device) for one in value])
    if hasattr(nets, "moved"):
        nets.moved()


def _moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    if tensor.device == torch.device(device):
        return tensor
    return tensor.detach().to(device).requires_grad_(tensor.requires_grad)


def join_rows(tensors: Mapping[str, Tensor], runs: int) -> Tensor:
    """Tensors (R, ...) side by side, (R, P)."""
    columns = [tensor.detach().reshape(runs, -1) for tensor in tensors.values()]
    return torch.cat(columns, dim=1) if columns else torch.empty(runs, 0)


def split_rows(rows: Tensor, shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """The named tensors (R, *shape) that lie side by side in `rows` (R, P)."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    if rows.shape[1] != sum(sizes):
        raise ValueError(f"rows of {rows.shape[1]} parameters do not fit an architecture of {sum(sizes)}")
    columns = torch.split(rows, sizes, dim=1) if sizes else ()
    return {name: part.reshape(len(rows), *shapes[name]) for name, part in zip(shapes, columns, strict=True)}

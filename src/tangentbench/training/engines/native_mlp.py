"""Blocks of training steps in compiled code (src/native/training), for fully connected networks on a CPU.

Each run takes a block of steps on one core while its weights lie in that core's cache; gradients are used while they
are in registers and never stored; zeros of the inputs are not multiplied. What it computes is
`TrainingSession.descend`, step by step, to rounding. Networks, recipes and machines it does not know are left to
autograd.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from tangentbench.errors import TangentbenchError
from tangentbench.networks.architecture import Dense, Flatten
from tangentbench.networks.gated import GatedNets, Gating
from tangentbench.training.batches import Examples
from tangentbench.training.optimisers import ADAM_BETAS, StackedOptimiser

LIBRARY = Path(__file__).parents[1] / "_training_core.so"
INSTRUCTION_SET_VARIABLE = "TANGENTBENCH_INSTRUCTION_SET"
BLOCK_STEPS = 256
"""Enough steps that bringing a run's weights into its core's memory and back costs nothing beside them."""
SPARSE_BELOW = 0.5
"""The share of nonzero inputs below which skipping zeros is faster than a dense product."""
LOSSES = {"cross_entropy": 0, "squared": 1}


class _Program(ctypes.Structure):
    """What a block of steps is told: `Program` in src/native/training/program.hpp."""

    _fields_ = [
        *[
            (name, ctypes.c_int)
            for name in (
                *("runs", "threads", "layers", "padding", "biases", "gates", "loss", "rule"),
                *("batch", "steps", "targets", "largest_row"),
            )
        ],
        *[(name, ctypes.c_int64) for name in ("count", "steps_before")],
        *[
            (name, ctypes.c_double)
            for name in ("beta", "height", "momentum", "weight_decay", "beta_1", "beta_2", "epsilon", "factor")
        ],
        *[
            (name, ctypes.c_void_p)
            for name in (
                *("widths", "step_sizes", "order", "labels"),
                *("row_starts", "columns", "occupied", "losses", "right"),
            )
        ],
    ]


class _Tensors(ctypes.Structure):
    """The struct of the same name in src/native/training/program.hpp."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("inputs", "targets", "parameters", "first", "second")]


@functools.cache
def _load() -> ctypes.CDLL | None:
    """The library; None where it was not built."""
    try:
        library = ctypes.CDLL(os.fspath(LIBRARY))
    except OSError:
        return None
    library.tangentbench_training_set.argtypes = [ctypes.c_int]
    library.tangentbench_training_set.restype = ctypes.c_char_p
    for precision in ("float32", "float64"):
        function = getattr(library, f"tangentbench_train_{precision}")
        function.argtypes = [ctypes.POINTER(_Program), ctypes.c_char_p, ctypes.POINTER(_Tensors)]
        function.restype = ctypes.c_int
    return library


def instruction_sets() -> list[str]:
    """What this machine can run, best first; empty where the library was not built."""
    names: list[str] = []
    library = _load()
    while library is not None and (name := library.tangentbench_training_set(len(names))):
        names.append(name.decode())
    return names


def chosen_instruction_set() -> str | None:
    """The best one, or that named by TANGENTBENCH_INSTRUCTION_SET; None where there is none."""
    known = instruction_sets()
    name = os.environ.get(INSTRUCTION_SET_VARIABLE) or next(iter(known), None)
    return name if name in known else None


def _gates_number(gating: Gating) -> int | None:
    """The gating as the library counts them (`Gates` in program.hpp); None for one that it does not have."""
    known = {("none", False): 0, ("frozen", False): 1, ("frozen", True): 2, ("trained", True): 3}
    return known.get((gating.features, gating.soft))


def knows(nets: object, optimiser: StackedOptimiser, loss: str, examples: Examples) -> bool:
    """Whether the compiled steps can train these networks on these examples."""
    if type(nets) is not GatedNets or chosen_instruction_set() is None or loss not in LOSSES:
        return False
    dense = all(isinstance(layer, Dense | Flatten) for layer in nets.architecture.hidden)
    dtype = nets.parameters.dtype
    return (
        dense
        and _gates_number(nets.gating) is not None
        and optimiser.optimiser.native is not None
        and dtype in (torch.float32, torch.float64)
        and examples.inputs.dtype == dtype
        and examples.inputs.device.type == "cpu"
        and _fits(nets, loss, examples)
    )


def _fits(nets: GatedNets, loss: str, examples: Examples) -> bool:
    """Whether the examples have the networks' shape; where not, torch's own words say what is wrong."""
    outputs, labels = nets.architecture.outputs, examples.labels
    if examples.inputs[0].numel() != np.prod(nets.architecture.input_shape):
        return False
    if loss == "cross_entropy":
        whole = labels.dim() == 1 and not labels.is_floating_point()
        return whole and int(labels.min()) >= 0 and int(labels.max()) < outputs
    return labels.shape[1:] == (outputs,) and labels.dtype == examples.inputs.dtype


@dataclass(frozen=True, eq=False)
class _Rows:
    """The examples' inputs: every number, or with `columns` the nonzero ones alone."""

    numbers: np.ndarray
    starts: np.ndarray | None = None
    columns: np.ndarray | None = None
    occupied: np.ndarray | None = None
    largest: int = 0

    @staticmethod
    def of(inputs: Tensor) -> _Rows:
        dense = inputs.flatten(1).contiguous().numpy()
        if np.count_nonzero(dense) > SPARSE_BELOW * dense.size:
            return _Rows(dense)
        sparse = scipy.sparse.csr_array(dense)
        starts = sparse.indptr.astype(np.int64)
        occupied = np.zeros(dense.shape[1], dtype=np.uint8)
        occupied[sparse.indices] = 1
        # at least one, because none means dense
        largest = max(1, int(np.diff(starts).max(initial=0)))
        return _Rows(sparse.data, starts, sparse.indices.astype(np.int32), occupied, largest)


class CompiledSteps:
    """Takes blocks of steps of `nets`, whose updates `optimiser` describes, on `examples`."""

    def __init__(
        self, nets: GatedNets, optimiser: StackedOptimiser, loss: str, examples: Examples, batch_size: int
    ) -> None:
        self.nets, self.optimiser, self.loss, self.batch_size = nets, optimiser, loss, batch_size
        self.rows = _Rows.of(examples.inputs)
        self.labels = examples.labels.contiguous().numpy()
        architecture = nets.value_architecture
        units = [layer.units for layer in architecture.hidden if isinstance(layer, Dense)]
        inputs = int(np.prod(architecture.input_shape))
        self.widths = np.array([inputs, *units, architecture.outputs], dtype=np.int32)

    def take(self, order: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        """Steps on the examples `order` (R, S * batch or fewer): losses (S, R) and numbers of hits (S, R)."""
        runs, count = order.shape
        steps = -(-count // self.batch_size)
        losses, right = np.empty((steps, runs)), np.empty((steps, runs), dtype=np.int64)
        order_of_runs = order.contiguous().numpy()
        step_sizes = np.array(self.optimiser.learning_rates)
        classes = self.labels.astype(np.int64, copy=False) if self.loss == "cross_entropy" else None
        gating, constants = self.nets.gating, self.optimiser.optimiser
        gates, update = _gates_number(gating), constants.native
        assert gates is not None and update is not None
        program = _Program(
            runs=runs,
            threads=torch.get_num_threads(),
            layers=len(self.widths) - 1,
            padding=gating.padding,
            biases=self.nets.architecture.biases,
            gates=gates,
            loss=LOSSES[self.loss],
            rule=update.number,
            batch=min(self.batch_size, count),
            steps=steps,
            targets=0 if classes is not None else int(self.widths[-1]),
            largest_row=self.rows.largest,
            count=count,
            steps_before=self.optimiser.steps,
            beta=gating.beta,
            height=gating.height,
            momentum=constants.momentum,
            weight_decay=constants.weight_decay,
            beta_1=ADAM_BETAS[0],
            beta_2=ADAM_BETAS[1],
            epsilon=constants.epsilon,
            factor=factor,
            widths=_address(self.widths),
            step_sizes=_address(step_sizes),
            order=_address(order_of_runs),
            labels=_address(classes),
            row_starts=_address(self.rows.starts),
            columns=_address(self.rows.columns),
            occupied=_address(self.rows.occupied),
            losses=_address(losses),
            right=_address(right),
        )
        parameters = self._addresses({name: list(tensor) for name, tensor in self.nets.tensors.items()})
        first, second = (self._addresses(of) if of else None for of in (*self.optimiser.moments(), None, None)[:2])
        tensors = _Tensors(
            inputs=_address(self.rows.numbers),
            targets=None if classes is not None else _address(self.labels),
            parameters=_address(parameters),
            first=_address(first),
            second=_address(second),
        )
        library, name = _load(), chosen_instruction_set()
        assert library is not None and name is not None
        precision = "float32" if self.nets.parameters.dtype == torch.float32 else "float64"
        status = getattr(library, f"tangentbench_train_{precision}")(
            ctypes.byref(program), name.encode(), ctypes.byref(tensors)
        )
        if status:
            raise TangentbenchError(
                f"not enough memory to train {program.threads} networks at a time: use fewer threads"
            )
        self.optimiser.advance(steps)
        return torch.from_numpy(losses), torch.from_numpy(right)

    def _addresses(self, tensors: Mapping[str, Sequence[Tensor]]) -> np.ndarray:
        """Where each run's tensors lie, (R, T) in the order of `Tensors` in program.hpp; 0 for what is not given."""
        layers = len(self.widths) - 1
        kinds = ("weight", "bias") if self.nets.architecture.biases else ("weight",)
        places = [("value", number) for number in range(1, layers + 1)]
        if self.nets.gating.features != "none":
            places += [("feature", number) for number in range(1, layers)]
        names = [f"{network}_{kind}_{number}" for network, number in places for kind in kinds]
        columns = [[one.data_ptr() for one in tensors[name]] if name in tensors else None for name in names]
        return np.array([column or [0] * self.nets.runs for column in columns], dtype=np.int64).T.copy()


def _address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data

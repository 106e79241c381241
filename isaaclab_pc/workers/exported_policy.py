# SPDX-License-Identifier: BSD-3-Clause
"""A policy as TorchScript and as ONNX: written, run again, compared and timed."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isaaclab_pc.errors import ConfigError

__all__ = [
    "TOLERANCE",
    "Agreement",
    "PlainPolicy",
    "compare",
    "compute_in_float32",
    "load_onnx",
    "load_torchscript",
    "milliseconds",
]

TOLERANCE = 1e-5
"""Largest difference between exported actions and the runner's, relative to actions that are larger than 1."""

_OUTPUT = "actions"

Run = Callable[[Mapping[str, Tensor]], Tensor]
"""Takes inputs by name, each (B, ...), float32, and returns actions, shape (B, A)."""


class PlainPolicy(nn.Module):
    """A copy of a runner's policy that can be exported: on the CPU, one float32 tensor for each observation group."""

    def __init__(self, policy: nn.Module, obs: Mapping[str, Tensor]) -> None:
        """Copy a policy and find out which groups it reads.

        Args:
            policy: What :meth:`isaaclab_pc.runners.interface.Runner.policy` returned, of a runner that loaded it: one
                that trained keeps tensors of its last update, which cannot be copied.
            obs: Observation groups by name, those that it does not read included.

        Raises:
            ConfigError: The policy remembers what it saw.
        """
        super().__init__()
        self.policy = _densified(copy.deepcopy(policy).cpu().float().eval())
        if any(isinstance(module, nn.RNNBase) for module in self.policy.modules()):
            raise ConfigError("this policy is recurrent: only policies without a memory can be exported.")

        reads = _Reads({name: value.float().cpu() for name, value in obs.items()})
        with torch.no_grad():
            self.policy(reads)
        self.groups = [name for name in obs if name in reads.names]
        """Names of the inputs, in their order."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute actions, shape (B, A), of the groups in the order of :attr:`groups`, each (B, ...)."""
        return self.policy(dict(zip(self.groups, inputs, strict=True)))

    def inputs(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the groups that are read, by name, as float32 on the CPU."""
        return {name: obs[name].float().cpu() for name in self.groups}

    def write_torchscript(self, path: Path, inputs: Mapping[str, Tensor]) -> None:
        """Write a TorchScript file whose ``forward`` takes one tensor for each of :attr:`groups`.

        Args:
            path: Where to.
            inputs: What :meth:`inputs` returned, at least two observations.
        """
        with torch.no_grad():
            traced: Any = torch.jit.trace(self, tuple(inputs.values()), check_trace=False)
        traced.save(str(path))

    def write_onnx(self, path: Path, inputs: Mapping[str, Tensor]) -> None:
        """Write an ONNX file with an input for each of :attr:`groups` and the output ``actions``.

        Args:
            path: Where to.
            inputs: As for :meth:`write_torchscript`.
        """
        batch = torch.export.Dim("batch")
        with torch.no_grad():
            torch.onnx.export(
                self,
                tuple(inputs.values()),
                str(path),
                input_names=self.groups,
                output_names=[_OUTPUT],
                dynamic_shapes=(tuple({0: batch} for _ in inputs),),
                dynamo=True,
                external_data=False,
                verbose=False,
            )


class _Reads(dict[str, Tensor]):
    """Observation groups that remember which of them were read."""

    def __init__(self, groups: Mapping[str, Tensor]) -> None:
        super().__init__(groups)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.names.add(name)
        return super().__getitem__(name)


def compute_in_float32(policy: nn.Module) -> None:
    """Let a policy compute in float32, as what is exported does, whatever the ``precision`` of its encoders."""
    module: Any
    for module in policy.modules():
        if hasattr(module, "precision"):
            module.precision = "float32"


def _densified(module: nn.Module) -> nn.Module:
    """Replace every submodule that TorchScript and ONNX cannot express by its ``dense()``."""
    dense: Any = getattr(module, "dense", None)
    if dense is not None:
        return dense()
    for name, child in module.named_children():
        setattr(module, name, _densified(child))
    return module


def load_torchscript(path: Path) -> Run:
    """Return what runs a TorchScript file."""
    module: Any = torch.jit.load(str(path))

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        with torch.no_grad():
            return module(*inputs.values())

    return run


def load_onnx(path: Path) -> Run:
    """Return what runs an ONNX file with onnxruntime, on one thread of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        actions: Any = session.run([_OUTPUT], {name: value.numpy() for name, value in inputs.items()})[0]
        return torch.from_numpy(actions)

    return run


@dataclass(frozen=True)
class Agreement:
    """How far exported actions are from those of the runner."""

    difference: float
    """Largest difference of an action, relative to actions that are larger than 1."""

    observations: int
    """Observations that were compared."""


def compare(run: Run, inputs: Mapping[str, Tensor], expected: Tensor) -> Agreement:
    """Compare exported actions with the runner's: of all observations at once, and of each alone.

    Args:
        run: The exported policy.
        inputs: Its inputs by name, each (B, ...), float32.
        expected: The runner's actions, shape (B, A).

    Returns:
        The agreement.

    Raises:
        RuntimeError: They differ by more than :data:`TOLERANCE`, or have another shape.
    """
    count = len(expected)
    together = run(inputs)
    alone = torch.cat([run({name: value[i : i + 1] for name, value in inputs.items()}) for i in range(count)])

    for actions in (together, alone):
        if actions.shape != expected.shape:
            raise RuntimeError(f"exported actions have shape {tuple(actions.shape)}, not {tuple(expected.shape)}")
    differences = (torch.stack([together, alone]) - expected).abs() / expected.abs().clamp_min(1.0)
    largest = float(differences.max())
    # Not "above": NaN is no agreement either.
    if not largest <= TOLERANCE:
        raise RuntimeError(f"exported actions differ from the runner's by {largest:.1e}, more than {TOLERANCE:.0e}")
    return Agreement(largest, count)


def milliseconds(run: Run, inputs: Mapping[str, Tensor], repeats: int = 200) -> float:
    """Return the median time of an action on one thread [ms].

    Args:
        run: The exported policy.
        inputs: Its inputs by name; the first observation is used.
        repeats: How often it is timed.
    """
    first = {name: value[:1] for name, value in inputs.items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(repeats // 10):
            run(first)
        return 1000.0 * statistics.median(_seconds(run, first) for _ in range(repeats))
    finally:
        torch.set_num_threads(threads)


def _seconds(run: Run, inputs: Mapping[str, Tensor]) -> float:
    start = time.perf_counter()
    run(inputs)
    return time.perf_counter() - start

# SPDX-License-Identifier: BSD-3-Clause
"""A policy as TorchScript and as ONNX: written, run again, compared and timed."""

import copy
import statistics
import timeit
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from isaaclab_pc.agents.networks import ObservationEncoder
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.policy_protocols import ActsFromState

TOLERANCE = 1e-5
"""Largest difference between exported actions and the runner's, relative to actions that are larger than 1."""

_STATES = ("hidden", "cell")
"""Names of what a policy remembers: a GRU has the first one, an LSTM both."""

Run = Callable[[Mapping[str, Tensor]], Sequence[Tensor]]
"""Takes inputs by name, each (B, ...), float32, and returns actions, shape (B, A). A policy with a memory takes that as
well, each part (M, B, H), and returns it after the actions."""


def output_of_state(name: str) -> str:
    """Return the name of the output that is given to an input for the memory in the next step."""
    return f"next_{name}"


class PlainPolicy(nn.Module):
    """A copy of a runner's policy that can be exported: on the CPU, one float32 tensor for each observation group.

    A policy with a memory takes it as further inputs, and returns it after the actions.
    """

    def __init__(self, policy: nn.Module, obs: Mapping[str, Tensor]) -> None:
        """Copy a policy and find out which groups it reads.

        Args:
            policy: :meth:`isaaclab_pc.learners.Runner.policy` of a runner that loaded it: one that trained keeps
                tensors of its last update, which cannot be copied.
            obs: Observation groups by name, those that it does not read included.

        Raises:
            ConfigError: The policy is recurrent, and its memory cannot be given to it.
        """
        super().__init__()
        self.policy = _densified(copy.deepcopy(policy).cpu().float().eval())
        self.state: dict[str, Tensor] = {}
        """Memory before the first step of an episode, by the names of the inputs, each (M, 1, H)."""
        if any(isinstance(module, nn.RNNBase) for module in self.policy.modules()):
            if not isinstance(self.policy, ActsFromState):
                raise ConfigError("this policy is recurrent, and none of this package's: it cannot be exported.")
            self.state = dict(zip(_STATES, self.policy.initial_state(1), strict=False))

        reads = _Reads({name: value.float().cpu() for name, value in obs.items()})
        with torch.no_grad():
            self._act(reads, self._states_of(len(next(iter(obs.values())))))
        self.groups = [name for name in obs if name in reads.names]
        """Names of the inputs for what is observed, in their order; those of :attr:`state` come after them."""

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute actions, shape (B, A), of the groups in the order of :attr:`groups`, each (B, ...).

        With a memory its parts, each (M, B, H), come after the groups, and those of the next step after the actions.
        """
        seen = len(self.groups)
        return self._act(dict(zip(self.groups, inputs[:seen], strict=True)), inputs[seen:])

    def _act(self, obs: Mapping[str, Tensor], state: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
        if not self.state:
            return self.policy(obs)
        policy: Any = self.policy
        actions, after = policy.act_from(obs, state)
        # The exporter to ONNX is wrong about the shape of what an LSTM remembers, if it is not told.
        layers, _, size = next(iter(self.state.values())).shape
        return actions, *(part.reshape(layers, -1, size) for part in after)

    def _states_of(self, batch: int) -> tuple[Tensor, ...]:
        return tuple(part.expand(-1, batch, -1).contiguous() for part in self.state.values())

    def inputs(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the groups that are read, by name, as float32 on the CPU."""
        return {name: obs[name].float().cpu() for name in self.groups}

    def write_torchscript(self, path: Path, inputs: Mapping[str, Tensor]) -> None:
        """Write a TorchScript file with this ``forward``, traced with at least two observations of :meth:`inputs`."""
        with torch.no_grad():
            traced: Any = torch.jit.trace(self, self._example(inputs), check_trace=False)
        traced.save(str(path))

    def write_onnx(self, path: Path, inputs: Mapping[str, Tensor]) -> None:
        """Write an ONNX file with an input for each of :attr:`groups` and :attr:`state`.

        Its outputs are ``actions`` and, with a memory, what :func:`output_of_state` names.
        """
        batch = torch.export.Dim("batch")
        of_states: list[dict[int, Any]] = [{1: batch} for _ in self.state]
        with torch.no_grad():
            torch.onnx.export(
                self,
                self._example(inputs),
                str(path),
                input_names=[*self.groups, *self.state],
                output_names=["actions", *map(output_of_state, self.state)],
                dynamic_shapes=((*({0: batch} for _ in inputs), *of_states),),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        if self.state:
            import onnx

            # Readers infer the inner shapes: the exporter writes wrong ones for an LSTM.
            model = onnx.load(path)
            del model.graph.value_info[:]
            onnx.save(model, path)

    def _example(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return *inputs.values(), *self._states_of(len(next(iter(inputs.values()))))


class _Reads(dict[str, Tensor]):
    """Observation groups that remember which of them were read."""

    def __init__(self, groups: Mapping[str, Tensor]) -> None:
        super().__init__(groups)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.names.add(name)
        return super().__getitem__(name)


def compute_in_float32(policy: nn.Module) -> None:
    """Let a policy compute in float32, as exported policies do, whatever the ``precision`` of its encoders."""
    for module in policy.modules():
        if isinstance(module, ObservationEncoder):
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
    """Load a TorchScript file."""
    module: Any = torch.jit.load(str(path))

    def run(inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        with torch.no_grad():
            outputs = module(*inputs.values())
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return run


def load_onnx(path: Path) -> Run:
    """Load an ONNX file into onnxruntime, on one thread of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        outputs: Any = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        return [torch.from_numpy(output) for output in outputs]

    return run


def compare(
    run: Run,
    inputs: Mapping[str, Tensor],
    expected: Tensor,
    state: Mapping[str, Tensor] = MappingProxyType({}),
    began: Sequence[bool] = (),
) -> float:
    """Return the largest difference between actions of an exported policy and the runner's, as for :data:`TOLERANCE`.

    Each of T steps is compared for one environment and for three at once.

    Args:
        run: The exported policy.
        inputs: Its inputs by name, each (T, ...), float32.
        expected: The runner's actions, shape (T, A).
        state: :attr:`PlainPolicy.state`.
        began: Whether an episode began with a step, T values; only a policy with a memory needs them.

    Raises:
        RuntimeError: They differ by more than :data:`TOLERANCE`, or have another shape.
    """
    largest = 0.0
    for size in (1, 3):
        remembered: dict[str, Tensor] = {}
        for step, wanted in enumerate(expected):
            if state and began[step]:
                remembered = {name: part.repeat(1, size, 1) for name, part in state.items()}
            seen = {name: value[[step] * size] for name, value in inputs.items()}
            actions, *after = run({**seen, **remembered})
            remembered = dict(zip(state, after, strict=True))
            if actions.shape != (size, *wanted.shape):
                raise RuntimeError(f"exported actions have shape {tuple(actions.shape)}, not {(size, *wanted.shape)}")
            difference = float(((actions - wanted).abs() / wanted.abs().clamp_min(1.0)).max())
            # Not "above": NaN is no agreement either.
            if not difference <= TOLERANCE:
                what = f"exported actions differ from the runner's by {difference:.1e} in step {step}"
                raise RuntimeError(f"{what}, more than {TOLERANCE:.0e}")
            largest = max(largest, difference)
    return largest


def milliseconds(run: Run, inputs: Mapping[str, Tensor], repeats: int = 200) -> float:
    """Return the median time of so many actions for one observation, on one thread [ms]."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = timeit.repeat(lambda: run(inputs), number=1, repeat=repeats + repeats // 10)
        return 1000.0 * statistics.median(seconds[repeats // 10 :])
    finally:
        torch.set_num_threads(threads)

# SPDX-License-Identifier: BSD-3-Clause
"""Per-environment detection, counting and repair of non-finite and out-of-bound values."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import warp as wp

from isaaclab_pc.guards import kernels
from isaaclab_pc.guards.causes import CAUSES, Cause, FaultError
from isaaclab_pc.guards.guard_cfg import GuardCfg

_LANES = 32
"""Threads that read one environment's numbers on CUDA; a warp."""

_PARALLEL_FROM = 32768
"""Size of a tensor from which torch reduces it in several threads."""

_BOUND_NAMES = {Cause.ACTION: "action", Cause.REWARD: "reward", Cause.OBSERVATION: "observation"}

_WARP_TYPES = {torch.float16: wp.float16, torch.float32: wp.float32}

_log = logging.getLogger(__name__)


class Guard:
    """Finds environments with bad values, counts them by cause, and benches those that keep failing.

    A step is :meth:`begin_step`, any number of checks, :meth:`end_step`. Everything stays on the device: nothing here
    waits for it, except in mode ``raise``, for :meth:`pending`, which waits for what was copied at the end of the last
    step and so long finished, and while environments are benched. On the CPU, where there is nothing to wait for, a
    tensor whose smallest and largest number are within the bounds needs no look at each environment.
    """

    def __init__(self, cfg: GuardCfg, num_envs: int, device: str, task: str = "") -> None:
        """Allocate the masks and counters.

        Args:
            cfg: Mode and bounds.
            num_envs: Number of environments.
            device: Torch device of the checked tensors.
            task: Name for messages.

        Raises:
            ConfigError: The configuration makes no sense.
        """
        cfg.check()
        self.cfg, self.num_envs, self.task = cfg, num_envs, task
        self.enabled = cfg.mode != "disabled"
        self.dump: Callable[[torch.Tensor], Path | None] | None = None
        """Called in mode ``raise`` with the failed environments, shape (M,): writes their history, returns where."""
        self.steps = 0
        """Steps begun since the start."""
        self._device = torch.device(device)
        self._warp_device = wp.get_device(device)
        self._on_cpu = self._warp_device.is_cpu
        self._lanes = _LANES if self._warp_device.is_cuda else 1
        self._repairs = cfg.mode == "sanitize"
        n = num_envs
        self.causes = self._zeros(n, torch.int32)
        """Bits of :class:`Cause` found in the current step, shape (num_envs,), int32."""
        self.benched = self._zeros(n, torch.bool)
        """Environments that failed too often right after a reset, shape (num_envs,), bool."""
        self.awaiting = self._zeros(n, torch.bool)
        """Environments that must be reset before the next physics step, shape (num_envs,), bool; a caller adds some in
        the step in which a check found them."""
        self.env_counts = self._zeros(n, torch.int64)
        """Faulty steps of each environment since the start, shape (num_envs,)."""
        self._counts = self._zeros(len(CAUSES), torch.int64)
        self.counts: dict[str, torch.Tensor] = {name: self._counts[i] for i, name in enumerate(CAUSES)}
        """Faulty environment steps since the start by their first cause, views of shape (): they count on."""
        self._since_fault = self._zeros(n, torch.int32).fill_(cfg.bench_steps)
        self._relapses = self._zeros(n, torch.int32)
        self._pending = self._zeros(2, torch.int32)
        self._pending_on_host = self._pending if self._on_cpu else torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self._pending_view = self._pending_on_host.numpy()
        self._copied = None if self._on_cpu else torch.cuda.Event()
        self._warned: set[int] = set()
        self._bad = {cause: self._zeros(n, torch.bool) for cause in Cause}
        self._written: set[Cause] = set()  # whose mask in _bad a kernel may have written since it was cleared
        self._calm_steps = 0
        self.findings = kernels.Findings()
        """Where kernels note what they find."""
        self.findings.causes, self.findings.benched = wp.from_torch(self.causes), wp.from_torch(self.benched)
        self.findings.counts, self.findings.env_counts = wp.from_torch(self._counts), wp.from_torch(self.env_counts)
        self._total = self._zeros(1, torch.int64)
        self.findings.total = wp.from_torch(self._total)
        # NumPy reads a number of the host in a tenth of the time that torch takes.
        self._total_view = self._total.numpy() if self._on_cpu else None
        self._total_before = self._total_logged = 0
        self._log = {f"Guard/{name}": count for name, count in self.counts.items()}
        self._rate, self._worst = self._zeros(1, torch.float32), self._zeros(1, torch.float32)
        self._log |= {"Guard/per_million_steps": self._rate[0], "Guard/worst_env": self._worst[0]}
        self._log["Guard/benched"] = self._pending[1]
        self._intervals = {cause: (*cfg.bounds(name), math.nan) for cause, name in _BOUND_NAMES.items()}
        self._intervals[Cause.DEPTH] = (0.0, cfg.max_abs, math.inf)
        self._commands: dict[Any, tuple[Any, list[wp.array]]] = {}
        self._previous_action: torch.Tensor | None = None

    @property
    def faulted(self) -> torch.Tensor:
        """Environments whose episode a fault of the current step ends, shape (num_envs,), bool."""
        return torch.zeros_like(self.benched) if self._repairs else self.causes != 0

    @property
    def muted(self) -> torch.Tensor:
        """Environments of which no value counts in the current step: faulted or benched, shape (num_envs,), bool."""
        return self.faulted | self.benched

    def is_quiet(self) -> bool:
        """Whether it is known without waiting that nothing is muted: always False on CUDA."""
        view = self._total_view
        return view is not None and view[0] == self._total_before and self._pending_view[1] == 0

    def begin_step(self) -> None:
        """Forget the faults of the previous step."""
        self.steps += 1
        self._clear()

    def check(self, cause: Cause, *tensors: torch.Tensor, names: Sequence[str] = ()) -> torch.Tensor:
        """Mark the environments in which a tensor has a number outside the bounds of ``cause``.

        Args:
            cause: ``ACTION``, ``REWARD``, ``OBSERVATION``, or ``DEPTH`` for planar depth [m], in which +inf is a miss.
            *tensors: Shape (num_envs, ...), float16 or float32. In mode ``sanitize`` they are repaired in place.
            names: What messages call the tensors.

        Returns:
            Environments found bad in these tensors, shape (num_envs,), bool: to be read only, until the next check of
            ``cause``.

        Raises:
            FaultError: Something was found, and the mode is ``raise``.
        """
        bad = self._bad[cause]
        if cause in self._written:
            bad.zero_()
            self._written.remove(cause)
        if not self.enabled:
            return bad

        low, high, passes = self._intervals[cause]

        def constants() -> list[Any]:
            return [low, high, passes, self._repairs, int(cause), self._lanes, wp.from_torch(bad), self.findings]

        for index, tensor in enumerate(tensors):
            if self._on_cpu and _is_within(tensor, low, high):
                continue
            values = wp.from_torch(tensor.reshape(self.num_envs, -1))
            kernel = kernels.CHECK_VALUES[_WARP_TYPES[tensor.dtype]]
            self.launch((cause, tensor.dtype), kernel, (self.num_envs, self._lanes), [values], constants)
            self._written.add(cause)
            self.raise_if(bad, names[index] if names else cause.label)
        return bad

    def check_actions(self, actions: torch.Tensor) -> torch.Tensor:
        """Check actions and their change since the step before.

        Args:
            actions: Shape (num_envs, A), any floating dtype; not changed.

        Returns:
            The actions to take, float32: in mode ``sanitize`` repaired, else 0 in environments that are muted.

        Raises:
            FaultError: Something was found, and the mode is ``raise``.
        """
        actions = actions.detach().to(torch.float32, copy=self._repairs).contiguous()
        self.check(Cause.ACTION, actions, names=("actions",))
        if self.cfg.action_rate is not None:
            self._check_change(actions)
        return actions if self.is_quiet() else actions.masked_fill(self.muted[:, None], 0.0)

    def _check_change(self, actions: torch.Tensor) -> None:
        if self._previous_action is None:
            self._previous_action = torch.full_like(actions, math.nan)
        previous, bad, bit = self._previous_action, self._bad[Cause.ACTION_RATE], int(Cause.ACTION_RATE)
        bad.zero_()

        def constants() -> list[Any]:
            arrays = [wp.from_torch(previous), wp.from_torch(bad)]
            return [self.cfg.action_rate, self._repairs, bit, *arrays, self.findings]

        self.launch("change", kernels.check_change, self.num_envs, [wp.from_torch(actions)], constants)
        self.raise_if(bad, "actions")

    def mark(self, cause: Cause, bad: torch.Tensor) -> None:
        """Take over what the caller's own check found.

        Args:
            cause: Counter that a first fault goes to.
            bad: Shape (num_envs,), bool.
        """
        constants = [int(cause), self.findings]
        self.launch(("mark", cause), kernels.note_mask, self.num_envs, [wp.from_torch(bad)], lambda: constants)

    def end_episodes(self, faulted: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor) -> None:
        """Write that episodes end for a fault, whatever else they end for, into the mask that ``cfg.ends`` names.

        Args:
            faulted: Shape (num_envs,), bool, like the others.
            terminated: Changed in place.
            truncated: Changed in place.
        """
        named, other = (terminated, truncated) if self.cfg.ends == "terminated" else (truncated, terminated)
        named |= faulted
        other &= ~faulted

    def end_step(self) -> None:
        """Bench who relapsed too often, and send to the host how many wait for a reset and how many are benched."""
        if self._is_settled():
            return
        self._pending.zero_()
        self.launch("settle", kernels.settle, self.num_envs, (), self._settle_inputs)
        if self._copied is not None:
            self._pending_on_host.copy_(self._pending, non_blocking=True)
            self._copied.record()

    def _is_settled(self) -> bool:
        """Whether nothing has happened for so long that settling would leave everything as it is."""
        calm = self.is_quiet() and self._pending_view[0] == 0
        self._calm_steps = self._calm_steps + 1 if calm else 0
        return self._calm_steps > self.cfg.bench_steps + 1

    def _settle_inputs(self) -> list[Any]:
        kept = (self._since_fault, self._relapses, self.benched, self._pending)
        inputs = [wp.from_torch(self.causes), wp.from_torch(self.awaiting), self.cfg.bench_steps, self.cfg.bench_after]
        return inputs + [wp.from_torch(tensor) for tensor in kept]

    def pending(self) -> tuple[int, int]:
        """Return how many environments await a reset and how many are benched, as of the last :meth:`end_step`."""
        if self._copied is not None:
            self._copied.synchronize()
        awaiting, benched = self._pending_view.tolist()
        return awaiting, benched

    def benched_ids(self) -> torch.Tensor:
        """Return the benched environments, int64, and warn once of each; this waits for the device."""
        ids = self.benched.nonzero().squeeze(-1)
        if new := sorted(set(ids.tolist()) - self._warned):
            self._warned.update(new)
            _log.warning(
                "%s: environments %s failed %d times in a row within %d steps of a reset and are benched: they stay at "
                "their default state with reward 0. Check what their resets write, or take a smaller physics.dt.",
                self.task,
                ", ".join(map(str, new)),
                self.cfg.bench_after + 1,
                self.cfg.bench_steps,
            )
        return ids

    def forget(self, env_ids: torch.Tensor) -> None:
        """Take note of environments that start a new episode, shape (M,), int64."""
        self.awaiting[env_ids] = False
        if self._previous_action is not None:
            self._previous_action[env_ids] = math.nan

    def release(self) -> None:
        """Give benched environments a new chance; counters stay."""
        self._clear()
        self.benched.zero_()
        self._relapses.zero_()
        self._pending.zero_()
        self._pending_on_host.zero_()
        self._warned.clear()

    def log(self) -> dict[str, torch.Tensor]:
        """Return the counters for a training log, all of shape ().

        They are the counters themselves and not copies, so that logging costs nothing: whoever reads them once an
        iteration sees their values at its end. ``Guard/<cause>`` counts faulty environment steps since the start by
        their first cause, ``Guard/per_million_steps`` relates them to all, ``Guard/worst_env`` is the environment that
        has most of them (0 while there are none), ``Guard/benched`` how many are benched.
        """
        total = None if self._total_view is None else int(self._total_view[0])
        if total != 0:
            torch.mul(self._total, 1e6 / (max(self.steps, 1) * self.num_envs), out=self._rate)
        if total is None or total != self._total_logged:
            self._worst.copy_(self.env_counts.argmax())
            self._total_logged = total or 0
        return dict(self._log)

    def launch(
        self,
        key: Any,
        kernel: Any,
        dim: int | tuple[int, ...],
        arrays: Sequence[wp.array],
        constants: Callable[[], Sequence[Any]],
    ) -> None:
        """Launch a kernel on torch's stream; its last arguments are kept from the first launch of ``key``.

        Args:
            key: Names the launch.
            kernel: What to run.
            dim: Threads.
            arrays: First arguments, which may be others at every launch. Those of the last one are kept.
            constants: Returns the remaining ones.
        """
        stream = None if self._on_cpu else wp.stream_from_torch(torch.cuda.current_stream(self._device))
        if key not in self._commands:
            inputs = [*arrays, *constants()]
            command = wp.launch(
                kernel, dim=dim, inputs=inputs, device=self._warp_device, stream=stream, record_cmd=True
            )
            self._commands[key] = command, list(arrays)
        command, bound = self._commands[key]
        for index, array in enumerate(arrays):
            if array is not bound[index]:
                command.set_param_at_index(index, array)
                bound[index] = array
        command.launch(stream=stream)

    def raise_if(self, bad: torch.Tensor, tensor: str) -> None:
        """In mode ``raise``, stop if anything is bad.

        Args:
            bad: Shape (num_envs,), bool or bits.
            tensor: What was checked.

        Raises:
            FaultError: Something is bad, and the mode is ``raise``.
        """
        if self.cfg.mode != "raise" or not bool(bad.any()):
            return
        ids = bad.nonzero().squeeze(-1)
        bits = 0
        for found in self.causes[ids].tolist():
            bits |= found
        dump = self.dump(ids) if self.dump is not None else None
        raise FaultError(self.task, ids.tolist(), Cause.labels(bits), tensor, self.steps, dump)

    def _clear(self) -> None:
        """Forget the causes; on the CPU it is known whether there are any."""
        if self._total_view is not None:
            if self._total_view[0] == self._total_before:
                return
            self._total_before = int(self._total_view[0])
        self.causes.zero_()

    def _zeros(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(size, dtype=dtype, device=self._device)


def _is_within(tensor: torch.Tensor, low: float, high: float) -> bool:
    """Whether all numbers of a tensor of the CPU are in an interval."""
    if tensor.numel() == 0:
        return True
    if tensor.numel() < _PARALLEL_FROM:
        least, most = torch.aminmax(tensor)  # both are NaN where one number is
    else:
        # Where other work keeps the cores busy, waiting for a second thread takes longer than the whole pass.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        least, most = torch.aminmax(tensor)
        torch.set_num_threads(threads)
    return low <= least.item() and most.item() <= high

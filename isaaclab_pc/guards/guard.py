# SPDX-License-Identifier: BSD-3-Clause
"""Per-environment detection, counting and repair of non-finite and out-of-bound values."""

import functools
import logging
import math
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import warp as wp

from isaaclab_pc.guards import kernels
from isaaclab_pc.guards.causes import CAUSES, Cause, FaultError
from isaaclab_pc.guards.guard_cfg import GuardCfg
from isaaclab_pc.tensors.warp_stream import RecordedLaunches

_MOST_LANE_BITS = 8
"""Binary logarithm of the threads that read one environment's numbers on CUDA, if there are as many numbers."""

_PARALLEL_FROM = 32768
"""Number of elements from which torch reduces a tensor in several threads."""

_BOUND_NAMES = {Cause.ACTION: "action", Cause.REWARD: "reward", Cause.OBSERVATION: "observation"}

_WARP_TYPES = {torch.float16: wp.float16, torch.float32: wp.float32}

_log = logging.getLogger(__name__)


class Guard:
    """Finds environments with bad values, counts them by cause, and benches those that keep failing.

    Call :meth:`begin_step`, then any number of checks, then :meth:`end_step`. Results stay on the device. Only mode
    ``raise``, :meth:`pending_counts` and, when one more environment is benched, :meth:`benched_ids` wait for it.
    """

    def __init__(
        self, cfg: GuardCfg, num_envs: int, device: str, task: str = "", allowed_actions: tuple[Any, Any] | None = None
    ) -> None:
        """Allocate the masks and counters.

        Args:
            cfg: Mode and bounds.
            num_envs: Number of environments.
            device: Torch device of the checked tensors.
            task: Name for messages.
            allowed_actions: Smallest and largest action of the task, numbers or tensors of an action's shape. Mode
                ``sanitize`` clamps bad ones to them. None: the bounds of ``cfg``.

        Raises:
            ConfigError: A bound or mode is not valid.
        """
        cfg.check()
        self.cfg = cfg
        self.num_envs = num_envs
        self.task = task
        self.enabled = cfg.mode != "disabled"
        self.dump: Callable[[torch.Tensor], Path | None] | None = None
        """Called in mode ``raise`` with the failed environments, shape (M,): writes their history, returns where."""
        self.steps = 0
        """Steps begun since the start."""

        self._device = torch.device(device)
        self._on_cpu = self._device.type == "cpu"
        self._allowed_actions = allowed_actions
        self.launch = RecordedLaunches(device).launch
        """Launches a kernel: see :meth:`~isaaclab_pc.tensors.warp_stream.RecordedLaunches.launch`."""
        self.repairs = cfg.mode == "sanitize"
        """Whether bad values are repaired, and episodes go on."""
        self._intervals = {cause: (*cfg.bounds(name), math.nan) for cause, name in _BOUND_NAMES.items()}
        self._intervals[Cause.DEPTH] = (0.0, cfg.max_abs, math.inf)

        self._allocate_masks()
        self._allocate_counters()
        self.findings = kernels.Findings()
        """Where kernels record what they find."""
        self.findings.causes = wp.from_torch(self.causes)
        self.findings.benched = wp.from_torch(self.benched)
        self.findings.counts = wp.from_torch(self._counts)
        self.findings.env_counts = wp.from_torch(self.env_counts)
        self.findings.total = wp.from_torch(self._total)
        self._rate = self._zeros(1, torch.float32)
        self._worst = self._zeros(1, torch.int64)[0]
        self._log = {f"Guard/{name}": count for name, count in self.counts.items()}
        self._log["Guard/per_million_steps"] = self._rate[0]
        self._log["Guard/worst_env"] = self._worst
        self._log["Guard/benched"] = self._pending[1]

    def _allocate_masks(self) -> None:
        n = self.num_envs
        # One piece of memory, which is cleared at once.
        self._found = self._zeros((4 + len(Cause)) * n, torch.uint8)
        self.causes = self._found[: 4 * n].view(torch.int32)
        """Bits of :class:`Cause` found in the current step, shape (num_envs,), int32."""
        self.benched = self._zeros(n, torch.bool)
        """Environments that failed too often right after a reset, shape (num_envs,), bool."""
        self.awaiting_reset = self._zeros(n, torch.bool)
        """Environments that must be reset before the next physics step, shape (num_envs,), bool. A caller adds to them
        in the step in which a check found something."""
        self._since_fault = self._zeros(n, torch.int32).fill_(self.cfg.bench_steps)
        self._relapses = self._zeros(n, torch.int32)
        self._steps_without_change = 0
        self._warned: set[int] = set()
        self._benched_ids = self._zeros(0, torch.int64)
        self._bad = dict(zip(Cause, self._found[4 * n :].view(torch.bool).view(-1, n), strict=True))
        # Causes with a mask in _bad that a kernel may have written since it was cleared.
        self._written: set[Cause] = set()

    def _allocate_counters(self) -> None:
        self.env_counts = self._zeros(self.num_envs, torch.int64)
        """Faulty steps of each environment since the start, shape (num_envs,)."""
        self._counts = self._zeros(len(CAUSES), torch.int64)
        self.counts: dict[str, torch.Tensor] = {name: self._counts[i] for i, name in enumerate(CAUSES)}
        """Faulty environment steps since the start by their first cause, views of shape () that keep counting."""
        self._total = self._zeros(1, torch.int64)
        # NumPy reads a number of the host in a tenth of the time that torch takes.
        self._total_view = self._total.numpy() if self._on_cpu else None
        self._total_before = 0
        self._total_logged = 0

        self._pending = self._zeros(2, torch.int32)
        self._pending_on_host = self._pending if self._on_cpu else torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self._pending_view = self._pending_on_host.numpy()
        self._copied = None if self._on_cpu else torch.cuda.Event()

    @property
    def faulted(self) -> torch.Tensor:
        """Environments with an episode that a fault of the current step ends, shape (num_envs,), bool."""
        return torch.zeros_like(self.benched) if self.repairs else self.causes != 0

    @property
    def excluded(self) -> torch.Tensor:
        """Faulted or benched environments: their values do not count in this step, shape (num_envs,), bool."""
        # Where values are repaired, nobody is benched.
        return self.benched if self.repairs else torch.logical_or(self.causes, self.benched)

    def has_no_known_faults(self) -> bool:
        """Tell whether nothing is excluded, as far as that is known without waiting: always False on CUDA."""
        view = self._total_view
        return view is not None and view[0] == self._total_before and self._pending_view[1] == 0

    def begin_step(self) -> None:
        """Clear the faults of the step before."""
        self.steps += 1
        self._clear_causes()

    def check(self, cause: Cause, *tensors: torch.Tensor, names: Sequence[str] = ()) -> torch.Tensor:
        """Mark the environments in which a tensor has a number outside the bounds of ``cause``.

        Args:
            cause: ``ACTION``, ``REWARD``, ``OBSERVATION``, or ``DEPTH`` for planar depth [m], in which +inf is a miss.
            *tensors: Shape (num_envs, ...), float16 or float32. In mode ``sanitize`` they are repaired in place.
            names: What messages call the tensors.

        Returns:
            Environments with a bad value in one of these tensors, shape (num_envs,), bool. Read it only, and only until
            the step ends or the next check of the same ``cause``.

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

        for index, tensor in enumerate(tensors):
            # Most tensors of the CPU are done here, in a fraction of a kernel's time.
            if self._on_cpu and is_within(tensor, low, high):
                continue

            flat = tensor.reshape(self.num_envs, -1)
            values = wp.from_torch(flat)
            lane_bits = 0 if self._on_cpu else min(_MOST_LANE_BITS, (values.shape[1] - 1).bit_length())

            def constants(lane_bits: int = lane_bits, dtype: torch.dtype = tensor.dtype) -> list[Any]:
                # A repaired number must be one that the type has: 1e6 in float16 is infinite.
                most = torch.finfo(dtype).max
                interval = max(low, -most), min(high, most), passes
                return [*interval, self.repairs, int(cause), lane_bits, wp.from_torch(bad), self.findings]

            kernel = kernels.CHECK_VALUES[_WARP_TYPES[tensor.dtype]]
            self.launch((cause, tensor.dtype, lane_bits), kernel, self.num_envs << lane_bits, [values], constants)
            # What cannot be viewed as rows was copied.
            if self.repairs and flat.data_ptr() != tensor.data_ptr():
                tensor.copy_(flat.view_as(tensor))
            self._written.add(cause)
            self.raise_if(bad, names[index] if names else cause.label)
        return bad

    def check_actions(self, actions: torch.Tensor) -> torch.Tensor:
        """Check actions (num_envs, ...) of any floating dtype.

        Returns:
            The actions to take, float32: repaired in mode ``sanitize``, otherwise 0 in excluded environments. The given
            ones are not changed.

        Raises:
            FaultError: Something was found, and the mode is ``raise``.
        """
        given = actions.detach().to(torch.float32).contiguous()
        actions = given.clone() if self.repairs else given
        self.check(Cause.ACTION, actions, names=("actions",))
        if self.repairs and self._allowed_actions is not None and not self.has_no_known_faults():
            # The bounds of what is no fault are wide: a task may not bear what is within them.
            actions = torch.where(actions == given, actions, actions.clamp(*self._allowed_actions))
        if self.has_no_known_faults():
            return actions
        return actions.masked_fill(self.excluded.view(-1, *[1] * (actions.dim() - 1)), 0.0)

    def end_step(self) -> None:
        """Update the bench, and send to the host how many environments await a reset and how many are benched."""
        # Where values are repaired, episodes go on: nothing awaits a reset, and none fails after one.
        if self.repairs:
            return
        # Long after the last fault, an update would change nothing.
        unchanged = self.has_no_known_faults() and self._pending_view[0] == 0
        self._steps_without_change = self._steps_without_change + 1 if unchanged else 0
        if self._steps_without_change > self.cfg.bench_steps + 1:
            return

        self._pending.zero_()
        arrays = (self.causes, self.awaiting_reset)
        state = (self._since_fault, self._relapses, self.benched, self._pending)

        def inputs() -> list[Any]:
            bench = (self.cfg.bench_steps, self.cfg.bench_after)
            return [*map(wp.from_torch, arrays), *bench, *map(wp.from_torch, state)]

        self.launch("bench", kernels.update_bench, self.num_envs, (), inputs)
        if self._copied is not None:
            self._pending_on_host.copy_(self._pending, non_blocking=True)
            self._copied.record()

    def pending_counts(self) -> tuple[int, int]:
        """Return how many environments await a reset and how many are benched, as of the last :meth:`end_step`.

        This waits until the last step's observations are checked. The loops of RSL-RL and RL-Games have waited for that
        already, by reading on the host which episodes ended.
        """
        if self._copied is not None:
            self._copied.synchronize()
        awaiting_reset, benched = self._pending_view.tolist()
        return awaiting_reset, benched

    def benched_ids(self) -> torch.Tensor:
        """Return the environments benched at the last :meth:`end_step`, int64, and warn once about each.

        This waits for the device where there are more than at the call before.
        """
        # Between two calls of unbench_all, as many as before are the same as before.
        if len(self._benched_ids) == self._pending_view[1]:
            return self._benched_ids

        ids = self.benched.nonzero().squeeze(-1)
        self._benched_ids = ids
        new = sorted(set(ids.tolist()) - self._warned)
        if new:
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

    def on_reset(self, env_ids: torch.Tensor) -> None:
        """Prepare for the new episodes of environments, shape (M,), int64."""
        # Not ``[env_ids] = number``, which copies the number to the device and waits for it.
        self.awaiting_reset.index_fill_(0, env_ids, False)

    def unbench_all(self) -> None:
        """Give benched environments a new chance; counters stay."""
        self._clear_causes()
        self.benched.zero_()
        self._relapses.zero_()
        self._pending.zero_()
        self._pending_on_host.zero_()
        self._benched_ids = self._zeros(0, torch.int64)
        self._warned.clear()

    def log(self) -> dict[str, torch.Tensor]:
        """Return the counters for a training log, all of shape (): the counters themselves, so logging copies nothing.

        ``Guard/<cause>`` counts faulty environment steps since the start by their first cause.
        ``Guard/per_million_steps`` relates them to all steps, ``Guard/worst_env`` is the environment that has most of
        them (0 while there are none), ``Guard/benched`` is the number of benched environments.
        """
        total = None if self._total_view is None else int(self._total_view[0])
        if total != 0:
            torch.mul(self._total, 1e6 / (max(self.steps, 1) * self.num_envs), out=self._rate)
        if total is None or total != self._total_logged:
            torch.argmax(self.env_counts, dim=0, out=self._worst)
            self._total_logged = total or 0
        return dict(self._log)

    def raise_if(self, bad: torch.Tensor, tensor: str) -> None:
        """In mode ``raise``, raise :class:`FaultError` if ``bad``, shape (num_envs,), has any."""
        if self.cfg.mode != "raise" or not bool(bad.any()):
            return

        ids = bad.nonzero().squeeze(-1)
        bits = functools.reduce(operator.or_, self.causes[ids].tolist())
        dump = self.dump(ids) if self.dump is not None else None
        raise FaultError(self.task, ids.tolist(), Cause.labels(bits), tensor, self.steps, dump)

    def _clear_causes(self) -> None:
        if self._total_view is not None:
            # On the CPU it is known whether there are any.
            if self._total_view[0] == self._total_before and not self._written:
                return
            self._total_before = int(self._total_view[0])
        self._found.zero_()
        self._written.clear()

    def _zeros(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(size, dtype=dtype, device=self._device)


def is_within(tensor: torch.Tensor, low: float, high: float) -> bool:
    """Tell whether all numbers of a tensor of the CPU are in an interval."""
    if tensor.numel() == 0:
        return True

    if tensor.numel() < _PARALLEL_FROM:
        least, most = torch.aminmax(tensor)
    else:
        # Where other work keeps the cores busy, waiting for a second thread takes longer than the whole pass.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            least, most = torch.aminmax(tensor)
        finally:
            torch.set_num_threads(threads)
    # Both are NaN where one number is, and fail the comparison.
    return low <= least.item() and most.item() <= high

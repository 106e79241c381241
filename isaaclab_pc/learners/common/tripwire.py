# SPDX-License-Identifier: BSD-3-Clause
"""The learner's last line of defence: an update with a non-finite gradient is skipped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from isaaclab_pc.tensors.distributed import average


class Tripwire:
    """Skips updates with a non-finite gradient, and counts them on the device.

    **Detection.** A loss or a weight that is NaN or inf makes the gradient NaN or inf, so the norm of the gradient
    shows all three. It is computed before the library clips: clipping by a norm that overflowed makes the gradient
    zero.

    **Skipping** uses what PyTorch has for mixed precision: fused Adam reads ``found_inf`` on the device and leaves
    weights, moments and step count as they are. A gradient set to zero would not do: the moments would decay, and the
    weights would move. Any other optimizer is skipped by the host, which waits for the device once an update.

    Processes that train together all skip an update if the gradient is bad in one of them.

    **Normalizers** are part of the networks' buffers. They are restored when an update was skipped, and when their own
    statistics are not finite.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, networks: Sequence[nn.Module]) -> None:
        """Put the tripwire into an optimizer's ``step``; Adam and AdamW become fused.

        A bad update also restores the buffers of ``networks``.
        """
        self._optimizer = optimizer
        self._networks = networks
        self._step: Callable[..., Any] = optimizer.step
        # Not SGD: where fused SGD skips its first step, its momentum starts from uninitialized memory.
        self._fused = isinstance(optimizer, torch.optim.Adam)

        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        # Frozen ones have no gradient to look at.
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        # A number, not a boolean: fused kernels compare it with 1.0.
        self._bad = torch.zeros((), device=parameters[0].device)
        self._skipped = torch.zeros_like(self._bad)
        self._updates = 0
        self.keep_buffers()

        if self._fused:
            for group in optimizer.param_groups:
                group["fused"] = True
            # Else the scaler of mixed precision would ask the device, and leave out the step and all that is done here.
            optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]
            # A fused optimizer keeps its step count on the device; loading must not turn that off.
            optimizer.register_load_state_dict_pre_hook(_as_fused)
        register_multi_grad_hook(trained, self._check_gradient)
        optimizer.step = self._guarded_step  # pyright: ignore[reportAttributeAccessIssue]
        self._zero_grad: Callable[..., None] = optimizer.zero_grad
        optimizer.zero_grad = self._forgetful_zero_grad

    @torch.no_grad()
    def keep_buffers(self) -> None:
        """Keep the buffers as they are now, to restore them later.

        Call it before updates, where something else than an update has changed the buffers.
        """
        self._kept = [buffer.clone() for buffer in self._buffers()]

    @torch.no_grad()
    def end_iteration(self) -> dict[str, float]:
        """Return the metrics of an iteration, and start counting the next one; this waits for the device.

        Returns:
            ``Learner/updates``: steps that the optimizer was asked for. ``Learner/skipped_updates``: those that did not
            happen.
        """
        # RSL-RL puts an iteration's samples into the statistics after the last update.
        self._restore_or_keep_buffers(torch.zeros_like(self._bad))

        metrics = {"Learner/updates": float(self._updates), "Learner/skipped_updates": float(self._skipped)}
        self._skipped.zero_()
        self._updates = 0
        return metrics

    @torch.no_grad()
    def _check_gradient(self, grads: Sequence[Tensor | None]) -> None:
        norm = nn.utils.get_total_norm([grad for grad in grads if grad is not None])
        self._bad = torch.maximum(self._bad, (~norm.isfinite()).float())

    def _forgetful_zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Forget a bad gradient with the gradient: another optimizer's loss may have passed through the networks."""
        self._bad = torch.zeros_like(self._bad)
        self._zero_grad(*args, **kwargs)

    @torch.no_grad()
    def _guarded_step(self, *args: Any, **kwargs: Any) -> None:
        # The gradient that was looked at is this process's own; that of the step is the mean over all of them.
        bad = (average(self._bad) > 0.0).float()
        self._bad = torch.zeros_like(bad)

        if self._fused:
            # With mixed precision, the gradient scaler has set found_inf before the step and removes it afterwards.
            scaler: Tensor | None = getattr(self._optimizer, "found_inf", None)
            self._optimizer.found_inf = bad if scaler is None else torch.maximum(bad, scaler)  # type: ignore[attr-defined]
            self._step(*args, **kwargs)
            if scaler is None:
                del self._optimizer.found_inf  # type: ignore[attr-defined]
        elif not bad:
            self._step(*args, **kwargs)

        self._updates += 1
        self._skipped += bad
        self._restore_or_keep_buffers(bad)

    def _buffers(self) -> Iterator[Tensor]:
        """Yield the networks' buffers, looked up anew as normalizers replace theirs by new tensors."""
        for network in self._networks:
            yield from network.buffers()

    def _restore_or_keep_buffers(self, bad: Tensor) -> None:
        """Restore the kept buffers if the update was bad or the present ones are not finite; else keep these."""
        buffers = list(self._buffers())
        finite = [buffer.isfinite().all() for buffer in buffers if buffer.is_floating_point()]
        if not finite:
            return

        restore = (bad > 0) | ~torch.stack(finite).all()
        for buffer, kept in zip(buffers, self._kept, strict=True):
            buffer.copy_(torch.where(restore, kept, buffer))
            kept.copy_(buffer)


def end_iteration(tripwires: Sequence[Tripwire]) -> dict[str, float]:
    """Return the metrics of an iteration of several optimizers; see :meth:`Tripwire.end_iteration`.

    Returns:
        The sums over all optimizers and, if there are several, ``Learner/stopped_optimizers``: how many skipped all
        of their updates, which the sums hide.
    """
    counts = [tripwire.end_iteration() for tripwire in tripwires]
    metrics = {name: sum(count[name] for count in counts) for name in counts[0]}
    if len(counts) > 1:
        stopped = [0.0 < count["Learner/skipped_updates"] == count["Learner/updates"] for count in counts]
        metrics["Learner/stopped_optimizers"] = float(sum(stopped))
    return metrics


def _as_fused(_: torch.optim.Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    return {**state, "param_groups": [{**group, "fused": True} for group in state["param_groups"]]}

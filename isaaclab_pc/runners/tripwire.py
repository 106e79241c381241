# SPDX-License-Identifier: BSD-3-Clause
"""The learner's last line of defence: an update with a gradient that is not finite does not happen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

__all__ = ["Tripwire"]


class Tripwire:
    """Skips updates whose gradient is not finite, and counts them on the device.

    A loss or a weight that is NaN or inf makes the gradient so, and the gradient's norm tells of all three. It is taken
    before the library clips: clipping turns a norm that overflows into a gradient of zero.

    To skip is what PyTorch has for mixed precision: fused Adam reads ``found_inf`` on the device and leaves weights,
    moments and step count as they are. A gradient set to zero would instead decay the moments and move the weights.
    Another optimizer is skipped by the host, which waits for the device once an update.

    Normalizers are put back to where they were before the update that was skipped, and before statistics that turned
    out not finite.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, networks: Sequence[nn.Module]) -> None:
        """Put the tripwire into an optimizer's ``step``.

        Args:
            optimizer: The library's optimizer; Adam and AdamW become fused.
            networks: Whose buffers are put back; the optimizer tells the parameters.
        """
        self._optimizer = optimizer
        self._networks = networks
        self._step: Callable[..., Any] = optimizer.step
        # Fused SGD would not do: where its first step is skipped, its momentum starts from uninitialized memory.
        self._fused = isinstance(optimizer, torch.optim.Adam)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        # Fused kernels compare with 1.0 in this type.
        self._bad = torch.zeros((), device=parameters[0].device)
        self._skipped = torch.zeros_like(self._bad)
        self._updates = 0
        self.remember()
        if self._fused:
            for group in optimizer.param_groups:
                group["fused"] = True
            # Where a fused optimizer keeps its step count follows from what the loaded groups say.
            optimizer.register_load_state_dict_pre_hook(_as_fused)
        register_multi_grad_hook(parameters, self._look)
        optimizer.step = self._guarded_step  # pyright: ignore[reportAttributeAccessIssue]

    @torch.no_grad()
    def remember(self) -> None:
        """Take the buffers as they are now for good; call it before updates, where something else changed them."""
        self._good = [buffer.clone() for buffer in self._buffers()]

    @torch.no_grad()
    def end_iteration(self) -> dict[str, float]:
        """Return the metrics of an iteration, and count anew; this waits for the device.

        Returns:
            ``Learner/updates``, the optimizer's steps, and ``Learner/skipped_updates``, those that did not happen.
        """
        # RSL-RL takes an iteration's samples into the statistics after the last update.
        self._put_back(torch.zeros_like(self._bad))
        metrics = {"Learner/updates": float(self._updates), "Learner/skipped_updates": float(self._skipped)}
        self._skipped.zero_()
        self._updates = 0
        return metrics

    @torch.no_grad()
    def _look(self, grads: Sequence[Tensor | None]) -> None:
        """Look at the gradients of a backward pass."""
        norm = nn.utils.get_total_norm([grad for grad in grads if grad is not None])
        self._bad = torch.maximum(self._bad, (~norm.isfinite()).float())

    @torch.no_grad()
    def _guarded_step(self, *args: Any, **kwargs: Any) -> None:
        """Take the optimizer's step unless the gradient is bad."""
        bad, self._bad = self._bad, torch.zeros_like(self._bad)
        if self._fused:
            # The gradient scaler of mixed precision sets it before the step, and takes it away after.
            scaler: Tensor | None = getattr(self._optimizer, "found_inf", None)
            self._optimizer.found_inf = bad if scaler is None else torch.maximum(bad, scaler)  # type: ignore[attr-defined]
            self._step(*args, **kwargs)
            if scaler is None:
                del self._optimizer.found_inf  # type: ignore[attr-defined]
        elif not bad:
            self._step(*args, **kwargs)
        self._updates += 1
        self._skipped += bad
        self._put_back(bad)

    def _buffers(self) -> Iterable[Tensor]:
        """Yield the networks' buffers; normalizers replace theirs by new tensors."""
        for network in self._networks:
            yield from network.buffers()

    def _put_back(self, bad: Tensor) -> None:
        """Undo what changed in the buffers since the last call where it is bad, else remember it."""
        buffers = list(self._buffers())
        finite = [buffer.isfinite().all() for buffer in buffers if buffer.is_floating_point()]
        if not finite:
            return
        undo = (bad > 0) | ~torch.stack(finite).all()
        for buffer, good in zip(buffers, self._good, strict=True):
            buffer.copy_(torch.where(undo, good, buffer))
            good.copy_(buffer)


def _as_fused(_: torch.optim.Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return an optimizer's state dict as of a fused optimizer."""
    return {**state, "param_groups": [{**group, "fused": True} for group in state["param_groups"]]}

# SPDX-License-Identifier: BSD-3-Clause
"""The last frames of what a policy observes, for ``env.history_length``."""

from collections.abc import Mapping

import torch
from isaaclab.utils.buffers import CircularBuffer

_PRIVILEGED = "critic"
"""The simulator's state, which needs no history."""


class ObservationHistory:
    """Keeps the last frames of each observation group that the policy reads, and puts them together.

    Vectors (N, P) become (N, H * P), and clouds or images (N, ...) become (N, H, ...): the oldest frame first and the
    present one last, as in Isaac Lab's managers. In the first step of an episode all frames are the present one.
    """

    def __init__(self, length: int, num_envs: int, device: str) -> None:
        """Start without frames, for a history of ``length``; the buffers are made with the first one."""
        self._length = length
        self._num_envs = num_envs
        self._device = device
        self._buffers: dict[str, CircularBuffer] = {}

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The frames that are kept, for measuring memory."""
        return [buffer.buffer for buffer in self._buffers.values()]

    def reset(self, env_ids: torch.Tensor) -> None:
        """Forget the frames of environments, shape (M,), as their episodes are over."""
        for buffer in self._buffers.values():
            buffer.reset(env_ids)  # pyright: ignore[reportArgumentType]  # it takes tensors too

    def append(self, frame: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Add the frame of a step, groups (N, ...) by name.

        Returns:
            The groups with their last frames, new tensors; ``critic`` is left as it is.
        """
        stacked = dict(frame)
        for name, value in self._seen_by_the_policy(frame):
            if name not in self._buffers:
                self._buffers[name] = CircularBuffer(self._length, self._num_envs, self._device, stack_dim=1)
            self._buffers[name].append(value)
            stacked[name] = self._buffers[name].stacked.clone()
        return stacked

    def with_last(self, frame: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return what :meth:`append` would, but keep nothing: the frame is the last one of some episodes."""
        stacked = dict(frame)
        for name, value in self._seen_by_the_policy(frame):
            buffer = self._buffers[name]
            earlier = buffer.stacked[:, value.shape[1] :]
            # An episode may end before it had a frame, and what was kept is that of no episode then.
            is_first = (buffer.current_length == 0).view(-1, *[1] * (value.dim() - 1))
            repeated = value.repeat(1, self._length - 1, *[1] * (value.dim() - 2))
            stacked[name] = torch.cat([torch.where(is_first, repeated, earlier), value], dim=1)
        return stacked

    @staticmethod
    def _seen_by_the_policy(frame: Mapping[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Return the groups that have a history; clouds and images with a dimension for time, (N, 1, ...)."""
        return [
            (name, value if value.dim() == 2 else value.unsqueeze(1))
            for name, value in frame.items()
            if name != _PRIVILEGED
        ]


def newest_frame(observation: Mapping[str, torch.Tensor], length: int) -> dict[str, torch.Tensor]:
    """Return views of the present frame of an observation that has ``length`` frames (``env.history_length``)."""
    newest = dict(observation)
    for name, value in observation.items():
        if length > 1 and name != _PRIVILEGED:
            newest[name] = value[:, -(value.shape[1] // length) :] if value.dim() == 2 else value[:, -1]
    return newest

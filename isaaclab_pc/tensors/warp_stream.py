# SPDX-License-Identifier: BSD-3-Clause
"""Launches of Warp kernels on torch's current stream."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import warp as wp


def current_stream(device: torch.device) -> wp.Stream | None:
    """Return torch's current stream of a device, for ``wp.launch``; None on the CPU."""
    return _wrapper(torch.cuda.current_stream(device)) if device.type == "cuda" else None


@functools.cache
def _wrapper(stream: torch.cuda.Stream) -> wp.Stream:
    wp.init()
    # Wrappers are kept: when one is deleted, Warp drops the stream, even where it is Warp's own current one.
    return wp.stream_from_torch(stream)


def launch_rows(kernel: Any, *arguments: Any) -> None:
    """Run a kernel on tensors and numbers, one thread for each row of the last one, which it writes."""
    output = arguments[-1]
    wp.launch(
        kernel,
        dim=len(output),
        inputs=[wp.from_torch(a, return_ctype=True) if isinstance(a, torch.Tensor) else a for a in arguments],
        device=str(output.device),
        stream=current_stream(output.device),
    )


class RecordedLaunches:
    """Launches kernels that run in every step: packing all arguments again would take several times as long."""

    def __init__(self, device: str) -> None:
        """Start without a recorded launch; all arguments will be on ``device``."""
        self._device = torch.device(device)
        self._warp_device = wp.get_device(device)
        self._commands: dict[Any, tuple[Any, list[Any]]] = {}

    def launch(
        self,
        key: Any,
        kernel: Any,
        dim: int,
        arrays: Sequence[wp.array | torch.Tensor],
        constants: Callable[[], Sequence[Any]],
    ) -> None:
        """Launch a kernel on ``dim`` threads; all but its first arguments are kept from the first launch of ``key``.

        ``arrays`` are those first arguments, which may differ from launch to launch; ``constants`` returns the others.
        """
        stream = current_stream(self._device)
        if key not in self._commands:
            first = [wp.from_torch(array) if isinstance(array, torch.Tensor) else array for array in arrays]
            inputs = [*first, *constants()]
            device = self._warp_device
            command = wp.launch(kernel, dim=dim, inputs=inputs, device=device, stream=stream, record_cmd=True)
            self._commands[key] = command, list(arrays)

        command, bound = self._commands[key]
        for index, array in enumerate(arrays):
            # Warp's arrays are kept, since they are compared; a tensor's memory is in the hands of torch.
            if isinstance(array, torch.Tensor):
                command.set_param_at_index_from_ctype(index, wp.from_torch(array, return_ctype=True))
            elif array is not bound[index]:
                command.set_param_at_index(index, array)
                bound[index] = array
        command.launch(stream=stream)

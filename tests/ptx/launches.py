# SPDX-License-Identifier: BSD-3-Clause
"""Runs the launches of Warp kernels in the interpreter: in blocks of many threads, as on a GPU, in the CPU's memory."""

from __future__ import annotations

import functools
import importlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import warp as wp
from warp._src.codegen import Struct

from isaaclab_pc.sensors.kernels import pixel_kernels
from isaaclab_pc.sensors.kernels.pixel_kernels import BLOCK_LANES, WARP_LANES
from tests.ptx.machine import Machine
from tests.ptx.memory import GlobalMemory
from tests.ptx.parser import Module, parse
from tests.ptx.threads import param_stride

ARCHITECTURE = 90
"""The compiler's PTX for H100 and H200. The GPU's assembler makes its own instructions of it, and may fuse products and
sums that are written without a rounding."""

_launch: Any = wp.launch


class Interpreter:
    """Stands in for ``wp.launch``. Kernels may access the arrays that they are given, and what :meth:`allow` names."""

    def __init__(self) -> None:
        """Make an interpreter that was asked for nothing yet."""
        self.launched: list[str] = []
        """Names of the kernels that were run."""
        self._known: list[tuple[int, int]] = []

    def allow(self, *tensors: torch.Tensor) -> None:
        """Let kernels read and write tensors of which they are told the addresses alone."""
        for tensor in tensors:
            size = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
            self._known.append((tensor.data_ptr(), size * tensor.element_size()))

    def launch(
        self,
        kernel: Any,
        dim: Any,
        inputs: Any = (),
        device: Any = None,
        stream: Any = None,
        record_cmd: bool = False,
        block_dim: int = 256,
    ) -> Any:
        """Do what ``wp.launch`` does. Warp itself packs the arguments."""
        del device, stream
        command = _launch(kernel, dim, inputs=inputs, device="cpu", record_cmd=True)
        command.launch = lambda stream=None: self._run(command, block_dim)
        if record_cmd:
            return command
        return command.launch()

    def _run(self, command: Any, block_lanes: int) -> None:
        kernel = command.kernel
        module, dynamic_bytes = compiled(kernel.module.name)
        name = f"{kernel.get_mangled_name()}_cuda_kernel_forward"
        params = [bytes(param) for param in command.params]
        declared = module.entries[name].param_bytes
        assert [len(param) for param in params] == declared, (kernel.key, declared)

        extents = [*self._known]
        for argument, param in zip(kernel.adj.args, command.params[1:], strict=True):
            extents += extents_of(argument.type, param)
        memory = GlobalMemory(extents, b"".join(param.ljust(param_stride(len(param)), b"\0") for param in params))
        num_blocks = -(-command.bounds.size // block_lanes)
        Machine(module, name, num_blocks, block_lanes, memory, dynamic_bytes[name]).run()
        self.launched.append(kernel.key)


@functools.cache
def compiled(module: str) -> tuple[Module, dict[str, int]]:
    """Return a module's PTX, and the dynamic shared memory of each of its kernels [bytes]."""
    code = importlib.import_module(module)
    options = wp.get_module(module).options
    before = options["lineinfo"]
    options["lineinfo"] = True
    try:
        with tempfile.TemporaryDirectory() as folder:
            [file] = wp.compile_aot_module(code, arch=ARCHITECTURE, module_dir=folder, use_ptx=True)
            [meta] = Path(folder).glob("*.meta")
            numbers = json.loads(meta.read_text(encoding="utf-8"))
            text = file.read_text(encoding="utf-8")
    finally:
        options["lineinfo"] = before
    sizes = {key.removesuffix("_smem_bytes"): size for key, size in numbers.items() if key.endswith("_smem_bytes")}
    return parse(text), sizes


def extents_of(kind: Any, value: Any) -> Iterator[tuple[int, int]]:
    """Yield start and size [bytes] of the arrays that an argument is or has."""
    if isinstance(kind, Struct):
        for name, variable in kind.vars.items():
            yield from extents_of(variable.type, getattr(value, name))
    elif wp.types.is_array(kind):
        lengths = value.shape[: value.ndim]
        if value.data and all(lengths):
            reach = sum((n - 1) * stride for n, stride in zip(lengths, value.strides, strict=False))
            yield value.data, reach + wp.types.type_size_in_bytes(kind.dtype)


@contextmanager
def interpreted() -> Iterator[Interpreter]:
    """Run all launches of Warp kernels in the interpreter, with as many threads as on a GPU."""
    interpreter = Interpreter()
    with (
        mock.patch.object(wp, "launch", interpreter.launch),
        mock.patch.object(wp, "load_module"),
        mock.patch.object(pixel_kernels, "lanes_on", return_value=(BLOCK_LANES, WARP_LANES)),
    ):
        yield interpreter

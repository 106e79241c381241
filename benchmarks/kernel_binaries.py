# SPDX-License-Identifier: BSD-3-Clause
"""What the CUDA compiler makes of each Warp kernel of this package; needs no GPU.

Run ``python benchmarks/kernel_binaries.py``. Warp compiles the kernels with NVRTC, as at the first launch on a GPU.
NVIDIA's cuobjdump and nvdisasm, which Triton brings along, and torch brings Triton, read the binaries.
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warp as wp
from triton import knobs

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = {
    "isaaclab_pc": ROOT / "isaaclab_pc",
    "isaaclab_pc.tasks": ROOT / "tasks",
    "isaaclab_pc.agents": ROOT / "agents",
}
"""Where our modules are; links are not followed."""

ARCHITECTURES = (80, 90, 120)
"""A100; H100 and H200; RTX 50 and RTX PRO Blackwell."""

MOST_THREADS = {80: 2048, 90: 2048, 120: 1536}
"""Threads that a multiprocessor holds at a time."""

REGISTERS = 65536
"""Registers of a multiprocessor of any of these architectures."""

BLOCK_THREADS = 256


RAY_KERNELS = {"": (False, False), " with normals": (True, False), " with errors": (True, True)}
"""Whether each kind of the kernel tells normals, and whether its cameras err."""


@dataclass(frozen=True)
class Binary:
    """One kernel, compiled for one architecture."""

    module: str
    kernel: str
    entry: str
    """Name of the kernel in the file."""
    file: Path
    architecture: int
    registers: int
    """Of each thread."""
    stack_bytes: int
    """Memory of each thread for what is not in registers: spills and arrays with a computed index."""
    shared_bytes: int
    """Of each block."""

    @property
    def occupancy(self) -> float:
        """Threads for which the registers suffice, as a share of those that a multiprocessor can hold."""
        # Registers come in portions of 8 a thread.
        block_registers = -(-self.registers // 8) * 8 * BLOCK_THREADS
        return min(1.0, REGISTERS // block_registers * BLOCK_THREADS / MOST_THREADS[self.architecture])


def kernel_modules() -> list[str]:
    """Return the names of all our modules that define a Warp kernel."""
    return [
        ".".join([package, *path.relative_to(folder).with_suffix("").parts])
        for package, folder in PACKAGES.items()
        for path in sorted(folder.rglob("*.py"))
        if re.search(r"^@wp\.kernel", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def compile_kernels(module: str, architectures: Sequence[int], folder: Path) -> list[Binary]:
    """Compile a module's kernels for each architecture into a folder, and read what they need."""
    importlib.import_module(module)
    return _compile(wp.get_module(module), module, architectures, folder)


def compile_ray_kernels(architectures: Sequence[int], folder: Path) -> list[Binary]:
    """Do as :func:`compile_kernels` with the kernels around Newton's ray tracer, which a program makes at run time."""
    from newton.sensors import SensorTiledCamera

    from isaaclab_pc.sensors.kernels import newton_ray_kernels, ray_kernels

    binaries = []
    for kind, (with_normal, with_errors) in RAY_KERNELS.items():
        # Newton's settings as Isaac Lab leaves them, without particles and Gaussians.
        context = SimpleNamespace(state=SimpleNamespace(num_gaussians=0, has_particles=False))
        sensor = SimpleNamespace(
            default_render_config=SensorTiledCamera.RenderConfig(), _SensorTiledCamera__render_context=context
        )
        cast = newton_ray_kernels.make_cast(sensor, with_normal)
        kernel = ray_kernels.make_cast_clouds(cast, with_normal, with_errors, in_blocks=True)
        name = f"isaaclab_pc.sensors.kernels.ray_kernels{kind}"
        binaries += _compile(kernel.module, name, architectures, folder)
    return binaries


def _compile(module: Any, name: str, architectures: Sequence[int], folder: Path) -> list[Binary]:
    files = wp.compile_aot_module(module, arch=architectures, module_dir=folder, use_ptx=False)

    binaries = []
    for architecture, file in zip(architectures, files, strict=True):
        usage = _resource_usage(file)
        for entry, kernel in _entries(module).items():
            needs = usage[entry]
            stack_bytes = needs["STACK"] + needs["LOCAL"]
            binaries.append(Binary(name, kernel, entry, file, architecture, needs["REG"], stack_bytes, needs["SHARED"]))
    return binaries


def _entries(module: Any) -> dict[str, str]:
    """Return our names of a module's kernels by their names in the binary."""
    names = {}
    for key, kernel in module.kernels.items():
        for variant in kernel.overloads.values() if kernel.is_generic else (kernel,):
            arguments = zip(variant.adj.args, kernel.adj.args, strict=True)
            types = [wp.types.type_repr(own.type) for own, generic in arguments if own.type != generic.type]
            names[f"{variant.get_mangled_name()}_cuda_kernel_forward"] = " ".join([key, *dict.fromkeys(types)])
    return names


def _resource_usage(file: Path) -> dict[str, dict[str, int]]:
    text = _run(knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file)
    entries = re.findall(r"Function (\w+):\s*\n(.*)", text)
    return {name: {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)} for name, line in entries}


def count_instructions(file: Path) -> dict[str, int]:
    """Count the instructions of each entry of a binary, without the NOPs that fill its last cache line."""
    counts: dict[str, int] = {}
    entry = ""
    for line in _run(knobs.nvidia.nvdisasm.path, "--print-code", file).splitlines():
        section = re.match(r"\.text\.(\w+):", line)
        if section:
            entry = section[1]
            counts[entry] = 0
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?!NOP|\s)", line):
            counts[entry] += 1
    return counts


def _run(tool: str, option: str, file: Path) -> str:
    return subprocess.run([tool, option, str(file)], check=True, capture_output=True, text=True).stdout


def table(binaries: Sequence[Binary]) -> str:
    """Return a row for each binary, in Markdown."""
    instructions = {file: count_instructions(file) for file in {binary.file for binary in binaries}}
    lines = [
        "| kernel | sm | registers | occupancy | stack [bytes] | shared [bytes] | instructions |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for binary in binaries:
        name = f"{binary.module}.{binary.kernel}".removeprefix("isaaclab_pc.")
        lines.append(
            f"| `{name}` | {binary.architecture} | {binary.registers} | {binary.occupancy:.0%} | {binary.stack_bytes} "
            f"| {binary.shared_bytes} | {instructions[binary.file][binary.entry]} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Compile all kernels and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", type=int, nargs="+", default=ARCHITECTURES, choices=ARCHITECTURES)
    architectures = parser.parse_args().arch

    with tempfile.TemporaryDirectory() as folder:
        binaries = [b for module in kernel_modules() for b in compile_kernels(module, architectures, Path(folder))]
        binaries += compile_ray_kernels(architectures, Path(folder))
        print(table(sorted(binaries, key=lambda b: (b.module, b.kernel, b.architecture))))


if __name__ == "__main__":
    main()

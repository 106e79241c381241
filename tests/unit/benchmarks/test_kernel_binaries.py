# SPDX-License-Identifier: BSD-3-Clause
"""Every Warp kernel of ours compiles for the GPUs that we name and fits them well; needs no GPU."""

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="its wheel brings NVIDIA's tools that read binaries")

from benchmarks import kernel_binaries
from benchmarks.kernel_binaries import (
    ARCHITECTURES,
    Binary,
    compile_kernels,
    compile_ray_kernels,
    kernel_modules,
    table,
)

LEAST_OCCUPANCY = 0.5
"""Below half of its threads, a multiprocessor may have too few to hide the latency of memory behind."""

OCCUPANCY_OF = {"follow_action": 0.25, "move_to_pose": 0.25}
"""A thread has a 6 x 6 system in registers, and one thread an environment is less than a GPU can hold even then."""

MOST_SHARED_BYTES = 8 * 1024
"""So that 12 blocks fit into the 100 KB of the smallest of these multiprocessors."""

KERNEL_WITH_STACK = """
import warp as wp

Many = wp.types.vector(length=64, dtype=wp.float32)

@wp.kernel(enable_backward=False)
def pick(index: wp.array(dtype=wp.int32), values: wp.array(dtype=wp.float32)):
    i = wp.tid()
    many = Many()
    for j in range(64):
        many[index[j]] = values[j]
    values[i] = many[index[i]]
"""


@pytest.mark.parametrize("module", kernel_modules())
def test_kernels_compile_and_leave_a_gpu_its_occupancy(module: str, tmp_path: Path) -> None:
    binaries = compile_kernels(module, ARCHITECTURES, tmp_path)
    assert {binary.architecture for binary in binaries} == set(ARCHITECTURES)
    for binary in binaries:
        assert binary.occupancy >= OCCUPANCY_OF.get(binary.kernel, LEAST_OCCUPANCY), binary
        assert binary.stack_bytes == 0, binary
        assert 0 < binary.shared_bytes <= MOST_SHARED_BYTES, binary


@pytest.mark.slow
def test_the_kernels_of_rays_compile_and_need_no_more_than_when_they_were_looked_at(tmp_path: Path) -> None:
    binaries = compile_ray_kernels(ARCHITECTURES, tmp_path)
    assert len(binaries) == 3 * len(ARCHITECTURES)
    for binary in binaries:
        # With the errors of a camera, registers are spilled to the stack.
        errs = "errors" in binary.module
        assert binary.registers < 255 or errs, binary
        assert binary.stack_bytes <= (1300 if errs else 320), binary
        assert binary.shared_bytes <= 36 * 1024, binary


def test_a_new_module_is_found_and_its_stack_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "of_a_test.py").write_text(KERNEL_WITH_STACK, encoding="utf-8")
    (tmp_path / "deep" / "without.py").write_text("import warp as wp\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(kernel_binaries, "PACKAGES", {"deep": tmp_path / "deep"})

    assert kernel_modules() == ["deep.of_a_test"]
    binaries = compile_kernels("deep.of_a_test", [90], tmp_path)
    assert binaries[0].stack_bytes >= 4 * 64
    [row] = table(binaries).splitlines()[2:]
    assert row.startswith("| `deep.of_a_test.pick` | 90 | ")
    assert int(row.split("|")[-2]) > 20


def test_occupancy_is_that_of_whole_blocks() -> None:
    def occupancy(registers: int, architecture: int = 90) -> float:
        return Binary("", "", "", Path(), architecture, registers, 0, 0).occupancy

    assert [occupancy(registers) for registers in (16, 32, 33, 64, 65, 255)] == [1, 1, 0.75, 0.5, 0.375, 0.125]
    assert occupancy(40, architecture=120) == 1

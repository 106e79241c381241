# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of 256 threads make the CPU's clouds: the kernels' PTX, run in an interpreter."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.sensors import warp_backend
from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.point_sampler import PointSampler
from tests.ptx.launches import Interpreter, compiled, interpreted
from tests.unit.sensors.backend_helpers import Sizes, backends, lens_tables, run, scene

samplers = pytest.mark.parametrize("sampler", ["random", "grid"])
MANY_PIXELS = [(80, 64)]
"""More words of pixels than a block has threads for."""


@pytest.fixture
def interpreter() -> Iterator[Interpreter]:
    with interpreted() as interpreter:
        yield interpreter


def without_holes(depth: torch.Tensor) -> torch.Tensor:
    return depth.clamp(0.5, 1.3).nan_to_num(1.0)


def assert_same(interpreter: Interpreter, both: tuple[Any, Any], num_points: int, inputs: list[Any]) -> None:
    numba, warp = both
    interpreter.allow(*inputs[0])
    expected = run(numba, num_points, inputs, fill=7.0)
    assert run(warp, num_points, inputs, fill=7.0) == expected


@samplers
@pytest.mark.parametrize(
    ("sizes", "num_points"),
    [([(1, 1)], 1), ([(7, 5)], 35), ([(24, 32)], 100), ([(17, 13), (24, 32), (3, 90)], 64)],
)
def test_images_of_any_size(interpreter: Interpreter, sampler: str, sizes: Sizes, num_points: int) -> None:
    both = backends("cpu", 5, sizes, num_points, sampler)
    for labelled, moved in ((False, False), (True, True)):
        assert_same(interpreter, both, num_points, scene(5, sizes, labelled=labelled, moved=moved))


@samplers
def test_through_lenses(interpreter: Interpreter, sampler: str) -> None:
    sizes = [*MANY_PIXELS, (17, 13)]
    inputs, centers = scene(2, sizes), lens_tables(sizes)
    numba, warp = backends("cpu", 2, sizes, 20, sampler)
    interpreter.allow(*inputs[0], *centers)
    assert run(warp, 20, inputs, centers=centers) == run(numba, 20, inputs, centers=centers)


@samplers
def test_more_words_than_a_block_has_threads(interpreter: Interpreter, sampler: str) -> None:
    sizes = [(96, 96)]
    assert 96 * 96 > 32 * 256
    assert_same(interpreter, backends("cpu", 2, sizes, 20, sampler), 20, scene(2, sizes))


@samplers
def test_full_empty_and_masked_environments_side_by_side(interpreter: Interpreter, sampler: str) -> None:
    inputs = scene(5, MANY_PIXELS, labelled=False)
    inputs[3] *= 0.1
    inputs[0][0][:2] = without_holes(inputs[0][0][:2])
    inputs[0][0][2] = torch.nan
    # Fewer points than asked for.
    inputs[0][0][3, 1:] = 0.0
    inputs[6] = torch.tensor([True, False, True, True, True])
    assert_same(interpreter, backends("cpu", 5, MANY_PIXELS, 70, sampler), 70, inputs)


def test_farthest_points() -> None:
    # More points than threads, few of them different: many distances are equal.
    points = torch.randint(0, 4, (3, 300, 3), generator=torch.Generator().manual_seed(0)).float()
    count = torch.tensor([300, 50, 10], dtype=torch.int32)
    cloud = Cloud(points, count, torch.arange(300, dtype=torch.int32).repeat(3, 1))
    sampler = PointSampler("fps", 24, [(20, 20)], np.zeros((2, 3)), 1.0, torch.device("cpu"))
    keys = torch.arange(3, dtype=torch.int32)
    expected = sampler(cloud, keys).pixels
    with interpreted() as interpreter:
        assert torch.equal(sampler(cloud, keys).pixels, expected)
    assert interpreter.launched == ["draw_uniform", "pick_farthest"]


def test_a_warp_may_look_at_many_words(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    # As with thousands of environments.
    monkeypatch.setattr(warp_backend, "WARPS_OF_GPU", 1)
    sizes = [(48, 40), (17, 13)]
    both = backends("cpu", 3, sizes, 50, "grid")
    assert both[1]._env_bits == [2, 0]
    assert_same(interpreter, both, 50, scene(3, sizes))


@pytest.mark.parametrize("module", ["warp_kernels", "warp_rank_kernels", "warp_matrix_kernels"])
def test_the_assembler_may_not_fuse_products_and_sums(module: str) -> None:
    # Those without a rounding it may; the pixels would no longer be the CPU's.
    entries = compiled(f"isaaclab_pc.sensors.kernels.{module}")[0].entries.values()
    sums = [
        instruction
        for entry in entries
        for instruction in entry.instructions
        if instruction.opcode[0] in ("add", "sub", "mul", "fma") and instruction.opcode[-1] == "f32"
    ]
    assert len(sums) > 50
    assert {instruction.opcode[:2] for instruction in sums} <= {("add", "rn"), ("sub", "rn"), ("mul", "rn")}

# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of 256 threads make the CPU's clouds: the kernels' PTX, run in an interpreter."""

from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.sensors import pixel_sampler as module
from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.point_sampler import PointSampler
from tests.ptx.launches import compiled, interpreted
from tests.unit.sensors.sampler_helpers import Sizes, lens_tables, pixel_sampler, run, scene

samplers = pytest.mark.parametrize("sampler", ["random", "grid"])
MANY_PIXELS = [(80, 64)]
"""More words of pixels than a block has threads for."""


def without_holes(depth: torch.Tensor) -> torch.Tensor:
    return depth.clamp(0.5, 1.3).nan_to_num(1.0)


def assert_same(sizes: Sizes, num_points: int, sampler: str, inputs: list[Any], centers: Any = None) -> None:
    settings = "cpu", len(inputs[5]), sizes, num_points, sampler
    expected = run(pixel_sampler(*settings), num_points, inputs, fill=7.0, centers=centers)
    with interpreted() as interpreter:
        interpreter.allow(*inputs[0], *(centers or ()))
        assert run(pixel_sampler(*settings), num_points, inputs, fill=7.0, centers=centers) == expected
    assert interpreter.launched.count("sample") == 1


@samplers
@pytest.mark.parametrize(
    ("sizes", "num_points"),
    [([(1, 1)], 1), ([(7, 5)], 35), ([(24, 32)], 100), ([(17, 13), (24, 32), (3, 90)], 64)],
)
def test_images_of_any_size(sampler: str, sizes: Sizes, num_points: int) -> None:
    for labelled, moved in ((False, False), (True, True)):
        assert_same(sizes, num_points, sampler, scene(5, sizes, labelled=labelled, moved=moved))


@samplers
def test_through_lenses(sampler: str) -> None:
    sizes = [*MANY_PIXELS, (17, 13)]
    assert_same(sizes, 20, sampler, scene(2, sizes), lens_tables(sizes))


@samplers
def test_more_words_than_a_block_has_threads(sampler: str) -> None:
    sizes = [(96, 96)]
    assert 96 * 96 > 32 * 256
    assert_same(sizes, 20, sampler, scene(2, sizes))


@samplers
def test_full_empty_and_masked_environments_side_by_side(sampler: str) -> None:
    inputs = scene(5, MANY_PIXELS, labelled=False)
    inputs[3] *= 0.1
    inputs[0][0][:2] = without_holes(inputs[0][0][:2])
    inputs[0][0][2] = torch.nan
    # Fewer points than asked for.
    inputs[0][0][3, 1:] = 0.0
    inputs[6] = torch.tensor([True, False, True, True, True])
    assert_same(MANY_PIXELS, 70, sampler, inputs)


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


def test_a_warp_may_look_at_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    # As with thousands of environments.
    monkeypatch.setattr(module, "WARPS_OF_GPU", 1)
    sizes = [(48, 40), (17, 13)]
    assert pixel_sampler("cpu", 3, sizes, 50, "grid")._env_bits == [2, 0]
    assert_same(sizes, 50, "grid", scene(3, sizes))


@pytest.mark.parametrize("name", ["valid_pixel_kernels", "rank_kernels", "matrix_kernels"])
def test_the_assembler_may_not_fuse_products_and_sums(name: str) -> None:
    # Those without a rounding it may; the pixels would no longer be the CPU's.
    entries = compiled(f"isaaclab_pc.sensors.kernels.{name}")[0].entries.values()
    sums = [
        instruction
        for entry in entries
        for instruction in entry.instructions
        if instruction.opcode[0] in ("add", "sub", "mul", "fma") and instruction.opcode[-1] == "f32"
    ]
    assert len(sums) > 50
    assert {instruction.opcode[:2] for instruction in sums} <= {("add", "rn"), ("sub", "rn"), ("mul", "rn")}

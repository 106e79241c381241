# SPDX-License-Identifier: BSD-3-Clause
"""Changes of frame are Isaac Lab's, on the CPU and in blocks of many threads."""

import pytest
import torch
from isaaclab.utils.math import quat_apply, quat_apply_inverse, quat_conjugate, quat_mul

from isaaclab_pc.tensors.poses import from_frame, into_frame, orientation_in_frame
from tests.ptx.launches import interpreted

N = 300
"""So that the last block is not full."""


@pytest.fixture
def poses() -> torch.Tensor:
    """Rows of other numbers too, as those of Isaac Lab's bodies are: position, then (x, y, z, w)."""
    rows = torch.randn(N, 9, generator=torch.Generator().manual_seed(0))
    rows[:, 3:7] /= torch.linalg.vector_norm(rows[:, 3:7], dim=1, keepdim=True)
    return rows


def test_points_go_from_a_frame_and_back_into_it(poses: torch.Tensor) -> None:
    position, quat = poses[:, :3], poses[:, 3:7]
    point = torch.randn(N, 3, generator=torch.Generator().manual_seed(1))
    outside = from_frame(position, quat, point)
    torch.testing.assert_close(outside, position + quat_apply(quat, point))
    torch.testing.assert_close(into_frame(position, quat, outside), point, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(from_frame(None, quat, point), quat_apply(quat, point))
    torch.testing.assert_close(into_frame(None, quat, point), quat_apply_inverse(quat, point))


def test_several_points_of_a_frame_are_those_one_by_one(poses: torch.Tensor) -> None:
    position, quat = poses[:, :3], poses[:, 3:7]
    points = torch.randn(N, 4, 3, generator=torch.Generator().manual_seed(2))
    for function in (from_frame, into_frame):
        together = function(position, quat, points)
        assert together.shape == points.shape
        for index in range(4):
            assert torch.equal(together[:, index], function(position, quat, points[:, index]))


def test_constants_that_all_rows_share_may_be_expanded(poses: torch.Tensor) -> None:
    offset = torch.tensor([0.0, 0.0, 0.1])
    shared = from_frame(poses[:, :3], poses[:, 3:7], offset.expand(N, 3))
    assert torch.equal(shared, from_frame(poses[:, :3], poses[:, 3:7], offset.repeat(N, 1)))


def test_an_orientation_is_seen_from_a_frame(poses: torch.Tensor) -> None:
    frame, quat = poses[:, 3:7], poses[:, 3:7].flip(0)
    torch.testing.assert_close(orientation_in_frame(frame, quat), quat_mul(quat_conjugate(frame), quat))


def test_results_are_the_callers_own(poses: torch.Tensor) -> None:
    first = from_frame(poses[:, :3], poses[:, 3:7], poses[:, :3])
    before = first.clone()
    from_frame(poses[:, :3], poses[:, 3:7], poses[:, :3] + 1.0)
    assert torch.equal(first, before)


def test_nan_stays_in_its_row(poses: torch.Tensor) -> None:
    point = torch.ones(N, 3)
    expected = into_frame(poses[:, :3], poses[:, 3:7], point)
    poses[5] = torch.nan
    found = into_frame(poses[:, :3], poses[:, 3:7], point)
    assert found[5].isnan().all()
    assert torch.equal(torch.cat([found[:5], found[6:]]), torch.cat([expected[:5], expected[6:]]))


def test_blocks_of_threads_find_the_same(poses: torch.Tensor) -> None:
    position, quat = poses[:, :3], poses[:, 3:7]

    def results() -> list[torch.Tensor]:
        return [
            from_frame(position, quat, poses[:, 6:]),
            into_frame(None, quat, poses[:, 6:]),
            orientation_in_frame(quat, quat.flip(0)),
        ]

    expected = results()
    with interpreted() as interpreter:
        found = results()
    assert interpreter.launched == ["from_frame", "into_frame", "orientation_in_frame"]
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)

# SPDX-License-Identifier: BSD-3-Clause
"""The matrices against SciPy in float64, and those of a GPU against those of the CPU."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch.utils._python_dispatch import TorchDispatchMode

from isaaclab_pc.sensors.camera_matrices import frame_change, ray_matrices
from tests.ptx.launches import interpreted

NUM_ENVS, CAMERAS = 5, 2


def poses(*shape: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, 3, generator=generator), torch.randn(*shape, 4, generator=generator)


def reference(pos: torch.Tensor | None, quat: torch.Tensor | None, index: tuple[int, ...]) -> np.ndarray:
    """Return the pose as a 4 x 4 matrix."""
    matrix = np.eye(4)
    if pos is not None:
        matrix[:3, 3] = pos[index].double().numpy()
    if quat is not None:
        matrix[:3, :3] = Rotation.from_quat(quat[index].double().numpy()).as_matrix()
    return matrix


@pytest.mark.parametrize("with_pos", [False, True])
@pytest.mark.parametrize("with_quat", [False, True])
def test_ray_matrices_are_those_of_the_poses(with_pos: bool, with_quat: bool) -> None:
    pos, quat = poses(NUM_ENVS, CAMERAS, seed=0)
    frame_pos, frame_quat = poses(NUM_ENVS, seed=1)
    frame = (frame_pos if with_pos else None, frame_quat if with_quat else None)
    k = torch.eye(3).repeat(NUM_ENVS, CAMERAS, 1, 1)
    k[..., 0, 0], k[..., 1, 1], k[..., 0, 2], k[..., 1, 2] = 60.0, 45.0, 31.0, 17.5
    result = ray_matrices(k, pos, quat, *frame)
    for env in range(NUM_ENVS):
        for camera in range(CAMERAS):
            to_frame = np.linalg.inv(reference(*frame, (env,))) @ reference(pos, quat, (env, camera))
            rays = to_frame[:3, :3] @ np.linalg.inv(k[env, camera].double().numpy())
            expected = np.concatenate([rays, to_frame[:3, 3:]], axis=1)
            np.testing.assert_allclose(result[env, camera].numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("with_quat", [False, True])
def test_frame_changes_are_those_of_the_poses(with_quat: bool) -> None:
    (from_pos, from_quat), (to_pos, to_quat) = poses(NUM_ENVS, seed=2), poses(NUM_ENVS, seed=3)
    result = frame_change(from_pos, from_quat if with_quat else None, to_pos, to_quat, like=from_pos)
    for env in range(NUM_ENVS):
        start = reference(from_pos, from_quat if with_quat else None, (env,))
        expected = np.linalg.inv(reference(to_pos, to_quat, (env,))) @ start
        np.testing.assert_allclose(result[env].numpy(), expected[:3], atol=2e-6)


@pytest.mark.gpu
@given(
    num_envs=st.integers(1, 9),
    cameras=st.integers(1, 3),
    known=st.tuples(*[st.booleans()] * 6),
    metres=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_a_gpu_gives_the_bits_of_the_cpu(
    num_envs: int, cameras: int, known: tuple[bool, ...], metres: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        # Every second one: what Isaac Lab gives is a view of the state of all bodies.
        return torch.randn(shape[0], 2, *shape[1:], generator=generator)[:, 1]

    pos, quat = metres * draw(num_envs, cameras, 3), draw(num_envs, cameras, 4)
    k = 50.0 * draw(num_envs, cameras, 3, 3)
    parts = [part for _ in range(3) for part in (metres * draw(num_envs, 3), draw(num_envs, 4))]
    frame = [part if is_known else None for part, is_known in zip(parts, known, strict=True)]

    def both(where: str) -> list[torch.Tensor]:
        camera_pos, camera_quat, intrinsics, *poses = (
            None if tensor is None else tensor.to(where) for tensor in (pos, quat, k, *frame)
        )
        rays = ray_matrices(intrinsics, camera_pos, camera_quat, *poses[:2])  # pyright: ignore
        return [rays, frame_change(*poses[2:], like=rays)]

    for expected, result in zip(both("cpu"), both("cuda"), strict=True):
        assert torch.equal(result.cpu().view(torch.int32), expected.view(torch.int32))


def test_blocks_of_threads_give_the_bits_of_the_cpu() -> None:
    num_envs = 300
    pos, quat = poses(num_envs, CAMERAS, seed=4)
    frame, other = poses(num_envs, seed=5), poses(num_envs, seed=6)
    k = 50.0 * torch.randn(num_envs, CAMERAS, 3, 3, generator=torch.Generator().manual_seed(7))

    def both() -> list[torch.Tensor]:
        return [ray_matrices(k, pos, quat, *frame), frame_change(*frame, *other, like=frame[0])]

    alone = both()
    with interpreted() as interpreter:
        in_blocks = both()
    assert interpreter.launched == ["ray_transforms", "frame_changes"]
    for expected, result in zip(alone, in_blocks, strict=True):
        assert torch.equal(result.view(torch.int32), expected.view(torch.int32))


class Operations(TorchDispatchMode):
    """Keeps the names of the operations that are run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(function._schema.name)
        return function(*args, **(kwargs or {}))


def test_a_gpu_gets_one_launch_for_all_matrices_of_a_kind() -> None:
    pos, quat = poses(NUM_ENVS, CAMERAS, seed=4)
    frame, other = poses(NUM_ENVS, seed=5), poses(NUM_ENVS, seed=6)
    k = torch.tensor([[50.0, 0, 20], [0, 40, 10], [0, 0, 1]]).expand(NUM_ENVS, CAMERAS, 3, 3)
    with mock.patch.object(wp, "launch", wraps=wp.launch) as launch, Operations() as operations:
        ray_matrices(k, pos, quat, *frame)
        assert launch.call_count == 1
        frame_change(*frame, *other, like=frame[0])
        assert launch.call_count == 2
    assert operations.names <= {"aten::empty", "aten::new_empty"}

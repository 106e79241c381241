# SPDX-License-Identifier: BSD-3-Clause
"""Both implementations, torch's operations and the CPU's loop, against SciPy in float64."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from isaaclab_pc.sensors import camera_matrices
from isaaclab_pc.sensors.camera_matrices import frame_change, ray_matrices

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


def test_torchs_operations_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pos, quat = poses(NUM_ENVS, CAMERAS, seed=4)
    frame, other = poses(NUM_ENVS, seed=5), poses(NUM_ENVS, seed=6)
    k = torch.tensor([[50.0, 0, 20], [0, 40, 10], [0, 0, 1]]).expand(NUM_ENVS, CAMERAS, 3, 3)
    loop = ray_matrices(k, pos, quat, *frame), frame_change(*frame, *other, like=frame[0])
    monkeypatch.setattr(camera_matrices, "_on_cpu", lambda tensor: False)
    torchs = ray_matrices(k, pos, quat, *frame), frame_change(*frame, *other, like=frame[0])
    for mine, theirs in zip(loop, torchs, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-6, rtol=0)

# SPDX-License-Identifier: BSD-3-Clause
"""The damped least squares of the arm are those of Isaac Lab, and so are its displaced poses."""

import pytest
import torch
from isaaclab.controllers import DifferentialIKController, DifferentialIKControllerCfg
from isaaclab.utils.math import apply_delta_pose

from benchmarks.host_syncs import HostSyncs
from isaaclab_pc.envs.arm_control import damped_least_squares, moved_pose

DAMPING = 0.05


def random_arms(num_envs: int, num_joints: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Jacobians, the last third nearly singular, and wanted motions."""
    generator = torch.Generator().manual_seed(num_joints)
    jacobian = torch.randn(num_envs, 6, num_joints, generator=generator) * 0.5
    jacobian[-num_envs // 3 :, 5] = jacobian[-num_envs // 3 :, 4] * (1.0 + 1e-4)
    return jacobian, torch.randn(num_envs, 6, generator=generator) * 0.05


@pytest.mark.parametrize("num_joints", [6, 7])
def test_the_change_of_the_joints_is_isaac_labs(num_joints: int) -> None:
    jacobian, motion = random_arms(300, num_joints)
    cfg = DifferentialIKControllerCfg(command_type="pose", ik_method="dls", ik_params={"lambda_val": DAMPING})
    theirs = DifferentialIKController(cfg, 300, "cpu")._compute_delta_joint_pos(motion, jacobian)
    ours = damped_least_squares(jacobian, motion, DAMPING**2 * torch.eye(6))
    # Both are off by as much as float32 allows near a singular pose.
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=5e-5)
    exact = damped_least_squares(jacobian.double(), motion.double(), DAMPING**2 * torch.eye(6).double())
    assert (ours - exact).abs().max() <= 2.0 * (theirs - exact).abs().max()


@pytest.mark.parametrize("damping", [DAMPING**2, 0.01**2])
def test_the_change_of_the_joints_is_that_of_a_solver(damping: float) -> None:
    jacobian, _ = random_arms(300, 7)
    # A motion that some joints can make, as that towards the default position is.
    motion = (jacobian * (0.03 * torch.randn(300, 1, 7, generator=torch.Generator().manual_seed(0)))).sum(dim=2)
    matrix = (jacobian[:, :, None] * jacobian[:, None]).sum(dim=3) + damping * torch.eye(6)
    solver = (jacobian * torch.linalg.solve(matrix, motion)[:, :, None]).sum(dim=1)
    ours = damped_least_squares(jacobian, motion, damping * torch.eye(6))
    torch.testing.assert_close(ours, solver, rtol=0.0, atol=1e-5)


def test_an_arm_that_is_not_finite_leaves_the_others_alone() -> None:
    jacobian, motion = random_arms(6, 7)
    damping = DAMPING**2 * torch.eye(6)
    expected = damped_least_squares(jacobian, motion, damping)
    jacobian[2] = torch.nan
    found = damped_least_squares(jacobian, motion, damping)
    assert found[2].isnan().all()
    rest = [0, 1, 3, 4, 5]
    assert torch.equal(found[rest], expected[rest])


def random_poses(num_envs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return positions, orientations, and motions of which some are tiny, some turn beyond pi, and one is none."""
    generator = torch.Generator().manual_seed(num_envs)
    position, quat, motion = (torch.randn(num_envs, size, generator=generator) for size in (3, 4, 6))
    motion[: num_envs // 4] *= 1e-7
    motion[-num_envs // 4 :, 3:] *= 4.0
    motion[0] = 0.0
    return position, torch.nn.functional.normalize(quat), motion


def test_a_moved_pose_is_isaac_labs() -> None:
    position, quat, motion = random_poses(400)
    for ours, theirs in zip(moved_pose(position, quat, motion), apply_delta_pose(position, quat, motion), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-6)


def test_no_motion_leaves_a_pose_as_it_is() -> None:
    position, _, motion = random_poses(4)
    identity = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).repeat(4, 1)
    moved = moved_pose(position, identity, torch.zeros_like(motion))
    assert torch.equal(moved[0], position)
    assert torch.equal(moved[1], identity)


def test_a_moved_pose_makes_no_tensor_of_numbers_of_the_host() -> None:
    poses = random_poses(4)
    waits = []
    for function in (apply_delta_pose, moved_pose):
        syncs = HostSyncs(ours=["isaaclab_pc", "tests"])
        with syncs:
            function(*poses)
        waits.append(syncs.counts.total())
    assert waits == [1, 0]

# SPDX-License-Identifier: BSD-3-Clause
"""What a step must not do on a GPU, counted on the CPU: wait where Isaac Lab does not need it, and round to TF32."""

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.host_syncs import Sync, count_syncs, open_env, turn_everything_on, ways_of_cuda
from isaaclab_pc.settings.physics import Backend

pytestmark = pytest.mark.sim

STEPS = 4

OURS = {
    (
        "synchronize()",
        "isaaclab_pc/guards/guard.py:pending_counts",
    ): "Isaac Lab resets by ids on the host, before physics",
    ("a number is read", "isaaclab_pc/faults/recorder.py:_keep_failures"): "asked on the CPU only",
    ("to(device)", "isaaclab_pc/faults/recorder.py:after_targets"): "a learner's actions are on the device already",
    ("to(device)", "isaaclab_pc/guards/step_guard.py:begin_step"): "a learner's actions are on the device already",
    ("to(device)", "isaaclab_pc/physics/friction.py:scale"): "copies for PhysX, which has materials on the host",
}
"""What may wait in our code, and why."""

THEIRS = {
    ("nonzero", "isaaclab/envs/direct_rl_env.py:_reset_envs_from_buffer"): "Isaac Lab resets by ids",
    ("to(device)", "isaaclab/envs/direct_rl_env.py:step"): "a learner's actions are on the device already",
    ("to(device)", "isaaclab/sensors/camera/camera.py:_as_device_tensor"): "on the device already",
    ("to(device)", "isaaclab/sensors/camera/camera.py:_resolve_env_ids_wp"): "on the device already",
}
"""What may wait in packages, wherever our code calls them."""

BACKENDS = ("isaaclab_ov/",)
"""What waits behind Isaac Lab's methods: PhysX when masses are set, and it has its materials on the host."""


@pytest.fixture(scope="module")
def env(backend: Backend) -> Iterator[Any]:
    """An environment of the CPU that takes the ways of CUDA."""
    with ways_of_cuda(), open_env("lift", "cpu", backend, turn_everything_on) as env:
        yield env


def unknown_waits(syncs: Mapping[Sync, int]) -> list[Sync]:
    """Return the waits that are not known to be needed."""
    waits = [sync for sync in syncs if not sync.where.startswith(BACKENDS)]
    return [sync for sync in waits if (sync.what, sync.function) not in (OURS if sync.is_ours else THEIRS)]


def test_a_step_waits_only_where_isaac_lab_needs_it(env: Any) -> None:
    syncs = count_syncs(env, STEPS).counts
    assert unknown_waits(syncs) == []
    # The counter was at work, and Isaac Lab waits once.
    assert sum(count for sync, count in syncs.items() if sync.what == "nonzero") == STEPS


ROUNDED = {
    *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "dot", "linear", "matmul", "mm", "mv"),
    *("cholesky_solve", "linalg_cholesky_ex", "linalg_inv_ex", "linalg_lu_factor_ex", "linalg_lu_solve"),
    *("_linalg_solve_ex", "linalg_solve_triangular", "triangular_solve"),
}
"""Matrix products, and solvers that have some inside."""


class MatrixProducts(TorchDispatchMode):
    """Counts the products that a GPU may round to TF32."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name.removeprefix("aten::")
        if name in ROUNDED:
            self.found["".join(traceback.format_stack(limit=4))] += 1
        return function(*args, **(kwargs or {}))


def test_no_product_of_a_step_may_be_rounded_to_tf32(env: Any) -> None:
    with MatrixProducts() as products:
        torch.mm(torch.eye(3), torch.eye(3))
        env.episode_length_buf[:2] = env.max_episode_length
        env.step(torch.rand(env.num_envs, env.cfg.action_space) * 2 - 1)
    assert list(products.found.values()) == [1], products.found


@pytest.mark.gpu
def test_our_part_of_a_step_passes_the_debug_mode_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn_the_tool(cfg: Any) -> None:
        cfg.action = "tool_pose"

    with open_env("lift", "cuda:0", adjust=turn_the_tool) as env:
        env.reset(seed=0)

        def step() -> None:
            env.episode_length_buf[:2] = env.max_episode_length
            env.step(torch.rand(env.num_envs, env.cfg.action_space, device=env.device) * 2 - 1)

        def forbid_waits(owner: Any, name: str) -> None:
            method = getattr(owner, name)

            def strict(*args: Any) -> Any:
                torch.cuda.set_sync_debug_mode("error")
                try:
                    return method(*args)
                finally:
                    torch.cuda.set_sync_debug_mode("default")

            monkeypatch.setattr(owner, name, strict)

        # Kernels are compiled and constants made in the first steps.
        for _ in range(3):
            step()
        for owner, names in {
            env: ("_pre_physics_step", "_get_dones", "_get_rewards", "_reset_robot", "_reset_task"),
            env.step_guard: ("check_depth", "check_observations", "on_reset", "end_step", "log"),
            env.episode_tracker: ("finish", "metrics"),
            env.point_cloud: ("_update_buffers_impl",),
        }.items():
            for name in names:
                forbid_waits(owner, name)
        for _ in range(3):
            step()

# SPDX-License-Identifier: BSD-3-Clause
"""What is recorded on real physics is what the environment gave, and solves the task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.demos.demo_file import DemoFile
from isaaclab_pc.run.jobs import DemoJob
from isaaclab_pc.workers.demo import record

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

ENVS, SEED = 2, 42


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Lift-Cube-Franka-Direct", ENVS)


@pytest.mark.parametrize(("disturbances", "executed"), [(0.0, "actions"), (0.3, "executed_actions")])
def test_demonstrations_hold_the_clouds_and_solve_the_task_again(
    env, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disturbances: float, executed: str
) -> None:
    given = []
    reset, step = env.reset, env.step

    def seen(result: tuple) -> tuple:
        given.append({name: value.clone() for name, value in result[0].items()})
        return result

    monkeypatch.setattr(env, "reset", lambda seed: seen(reset(seed=seed)))
    monkeypatch.setattr(env, "step", lambda actions: seen(step(actions)))
    file = DemoFile(tmp_path / "demos.hdf5")
    config = compose(["task=lift", f"physics={backend}", "device=cpu", f"seed={SEED}"])
    with file.locked():
        record(env, DemoJob(config, file.path, ENVS, "all", with_depth=False, disturbances=disturbances))
        file.merge()
    monkeypatch.undo()

    with h5py.File(file.path) as content:
        data: Any = content["data"]
        succeeded = [bool(data[f"demo_{index}"].attrs["success"]) for index in range(ENVS)]
        # Disturbed, the expert fails now and then.
        assert any(succeeded) if disturbances else all(succeeded)
        episodes = [data[f"demo_{index}"] for index in range(ENVS)]
        for index, episode in enumerate(episodes):
            assert episode["obs/points"].dtype == np.float16
            for name, recorded in episode["obs"].items():
                assert np.array_equal(recorded, torch.stack([groups[name][index] for groups in given[:-1]])), name
        actions = torch.from_numpy(np.stack([episode[executed] for episode in episodes], axis=1))
        differs = [not np.array_equal(episode["actions"], episode[executed]) for episode in episodes]
        assert differs == [disturbances > 0.0] * ENVS
        poses = [episode["states/rigid_object/cube/root_pose"][-2, :3] for episode in episodes]

    env.reset(seed=SEED)
    for action in actions[:-1]:
        env.step(action)
    cube = env.cube_pos
    env.step(actions[-1])
    assert env.episode_success.tolist() == succeeded
    np.testing.assert_allclose(cube, np.stack(poses), atol=5e-3)

# SPDX-License-Identifier: BSD-3-Clause
"""What is recorded on real physics is what the environment gave, and solves the task."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.demos.datasets import Episodes
from isaaclab_pc.demos.demo_file import DemoFile
from isaaclab_pc.run.jobs import DemoJob
from isaaclab_pc.workers.demo import record

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

ENVS, SEED = 2, 42


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Lift-Cube-Franka-Direct", ENVS)


def test_demonstrations_hold_the_clouds_and_solve_the_task_again(
    env, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        record(env, DemoJob(config, file.path, ENVS, "all", with_depth=False))
        file.merge()
    monkeypatch.undo()

    dataset = Episodes(file.path, ("obs", "actions", "states"))
    assert [demo.success for demo in dataset.demos] == [True] * ENVS
    episodes = [dataset[index] for index in range(ENVS)]
    for index, episode in enumerate(episodes):
        assert episode["obs"]["points"].dtype == torch.float16
        for name, recorded in episode["obs"].items():
            assert torch.equal(recorded, torch.stack([groups[name][index] for groups in given[:-1]])), name

    env.reset(seed=SEED)
    actions = torch.stack([episode["actions"] for episode in episodes], dim=1)
    for action in actions[:-1]:
        env.step(action)
    cube = env.cube_pos
    env.step(actions[-1])
    assert env.episode_success.all()
    recorded = torch.stack([episode["states"]["rigid_object"]["cube"]["root_pose"][-2, :3] for episode in episodes])
    assert torch.allclose(cube, recorded, atol=5e-3)

# SPDX-License-Identifier: BSD-3-Clause
"""Imitation of a file of demonstrations, in robomimic's layout, on a fake task with a known right action."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from isaaclab_pc.agents.distill import ImitationCfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.rsl_rl import cfg as rsl_rl_cfg
from isaaclab_pc.learners.rsl_rl.replay import num_steps_of
from tests.unit.learners.bench import make_runner, train
from tests.unit.learners.test_distill_runner import NUM_ENVS, PLAN, SETTINGS, TaughtEnv

EPISODES, STEPS = 8, 80


@pytest.fixture
def demos(tmp_path: Path) -> Path:
    """A file of the fake task's expert, with actions and what a policy sees alone."""
    env = TaughtEnv()
    file = tmp_path / "demos.hdf5"
    with h5py.File(file, "w") as data:
        for index in range(EPISODES):
            steps = []
            for step in range(STEPS):
                env.count = torch.full((NUM_ENVS,), 1000 * index + step)
                steps.append({**env.observe(), "actions": env.expert()()})
            episode = data.create_group(f"data/demo_{index}")
            for name in ("points", "policy"):
                episode[f"obs/{name}"] = torch.stack([step[name][0] for step in steps]).numpy()
            episode["actions"] = torch.stack([step["actions"][0] for step in steps]).numpy()
    return file


class SilentEnv(TaughtEnv):
    """The fake task without an expert, in which a policy acts as it was told: without noise."""

    student: Callable[..., torch.Tensor] | None = None

    def expert(self) -> Any:
        raise AssertionError("nobody may be asked")

    def step(self, actions: torch.Tensor) -> Any:
        if self.student is not None:
            torch.testing.assert_close(actions, self.student(self.observe()))
        return super(TaughtEnv, self).step(actions)


class OtherEnv(SilentEnv):
    """The same with clouds of ten points."""

    def _frame(self, count: torch.Tensor) -> dict[str, torch.Tensor]:
        frame = super()._frame(count)
        return {**frame, "points": frame["points"][:, :10]}


def make(folder: Path, demos: Path, env: TaughtEnv) -> Any:
    cfg: Any = rsl_rl_cfg.make_distill_cfg(SETTINGS, "x")
    return make_runner("rsl_rl", cfg, env, folder, plan=PLAN, demos=demos)


def error(runner: Any) -> float:
    """Return the mean error of the deterministic actions on states that are not in the file."""
    env = TaughtEnv()
    env.count = torch.arange(NUM_ENVS) * 37 + 50_000
    return float((runner.act(env.observe()) - env.expert()()).abs().mean())


def test_the_student_learns_from_the_file_alone_and_goes_on_after_a_stop(tmp_path: Path, demos: Path) -> None:
    runner = make(tmp_path / "a", demos, SilentEnv())
    before = error(runner)
    calls = train(runner, 10)
    assert calls[0]["Learner/updates"] == ImitationCfg().num_learning_epochs * PLAN.num_minibatches
    assert "loss/expert_share" not in calls[0]
    runner.save(tmp_path / "10.pt", {})

    env = SilentEnv()
    resumed = make(tmp_path / "b", demos, env)
    env.student = resumed.act
    resumed.load(tmp_path / "10.pt")
    calls = train(resumed, 20)
    assert [metrics["Learner/updates"] for metrics in calls] == [10.0] * 10
    assert before > 0.4
    assert error(resumed) < 0.15


def test_the_whole_file_is_held_and_normalizes(tmp_path: Path, demos: Path) -> None:
    runner = make(tmp_path, demos, SilentEnv())
    train(runner, 1)
    assert num_steps_of(demos) == len(runner.holders()["replay"]) == EPISODES * STEPS
    with h5py.File(demos, "r") as file:
        data: Any = file["data"]
        policy = torch.cat([torch.from_numpy(episode["obs/policy"][:]) for episode in data.values()])
    (normalizer,) = [part for name, part in networks(runner).items() if name.endswith("_mean")]
    torch.testing.assert_close(normalizer.flatten(), policy.mean(dim=0), atol=1e-4, rtol=0)


def networks(runner: Any) -> dict[str, torch.Tensor]:
    (weights,) = (part for part in runner._networks().values() if isinstance(part, dict) and len(part) > 3)
    return weights


def test_a_file_of_other_observations_is_refused(tmp_path: Path, demos: Path) -> None:
    with pytest.raises(ConfigError, match=rf"demos={demos}: points are \(12, 3\) .* \(10, 3\)"):
        train(make(tmp_path, demos, OtherEnv()), 1)
    with h5py.File(demos, "a") as file:
        for index in range(EPISODES):
            del file[f"data/demo_{index}/obs/policy"]
    with pytest.raises(ConfigError, match="policy are not there in a step"):
        train(make(tmp_path, demos, SilentEnv()), 1)


def test_failed_episodes_are_not_imitated(demos: Path) -> None:
    assert num_steps_of(demos) == EPISODES * STEPS
    with h5py.File(demos, "a") as file:
        for index, success in enumerate((True, False, False)):
            file[f"data/demo_{index}"].attrs["success"] = success
    assert num_steps_of(demos) == (EPISODES - 2) * STEPS


def test_what_is_no_file_of_demonstrations_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no HDF5", encoding="utf-8")
    empty = tmp_path / "empty.hdf5"
    with h5py.File(empty, "w") as file:
        file.create_group("data")
    for path, message in ((text, "is no file of demonstrations"), (empty, "holds no successful episodes")):
        with pytest.raises(ConfigError, match=f"^demos={path} {message}"):
            num_steps_of(path)

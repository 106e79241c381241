# SPDX-License-Identifier: BSD-3-Clause
"""What is recorded of an environment, and which episodes are kept."""

from dataclasses import replace
from pathlib import Path

import h5py
import pytest
import torch

from isaaclab_pc.demos.demo_file import DemoFile
from isaaclab_pc.run.jobs import DemoJob
from isaaclab_pc.workers.demo import GIVE_UP_AFTER, record, record_wave
from tests.recorded_demos import attributes_of
from tests.unit.commands.demo_helpers import POINTS, STEPS, FakeEnv, settings


@pytest.fixture
def file(tmp_path: Path):
    made = DemoFile(tmp_path / "demos.hdf5")
    with made.locked():
        yield made


def job(file: DemoFile, episodes: int, *given: str) -> DemoJob:
    return DemoJob(settings(*given), file.path, episodes, "success", with_depth=False)


def test_an_episode_holds_what_came_before_and_after_each_action() -> None:
    env = FakeEnv()
    wave = record_wave(env, env.expert(), 7)
    assert vars(env)["step_methods"].hooks == (), "it is watched no longer"
    assert wave is not None
    for index, episode in wave.episodes.items():
        length, data = STEPS + index, episode.data
        before = torch.arange(float(length))
        assert torch.equal(data["obs"]["policy"][:, 0], before)
        assert data["obs"]["points"].shape == (length, POINTS, 3)
        assert data["obs"]["points"].dtype == torch.float16
        assert torch.equal(data["actions"][:, 0], 0.1 * before)
        assert torch.equal(data["actions"][:, 1], torch.ones(length))  # within what an action may be
        assert torch.equal(data["rewards"], before + 1.0)
        assert data["dones"].tolist() == [0] * (length - 1) + [1]
        # The last one is not that of the episode after the reset.
        assert torch.equal(data["states"]["rigid_object"]["cube"]["root_pose"][:, 0], before + 1.0)
        assert torch.equal(data["initial_state"]["rigid_object"]["cube"]["root_pose"], torch.zeros(1, 7))
        assert (episode.seed, episode.success) == (7, (7 + index) % 3 != 0)
    assert wave.successes == 2


def test_a_disturbed_episode_has_the_experts_actions_and_those_that_were_executed() -> None:
    class Long(FakeEnv):
        def __init__(self) -> None:
            super().__init__(num_envs=64)
            self.executed: list[torch.Tensor] = []

        def step(self, actions: torch.Tensor) -> tuple:
            self.executed.append(actions)
            return super().step(actions)

    env = Long()
    wave = record_wave(env, env.expert(), 7, disturbances=0.5)
    assert wave is not None
    executed = torch.stack(env.executed)
    for index, episode in wave.episodes.items():
        data = episode.data
        length = len(data["actions"])
        assert torch.equal(data["executed_actions"], executed[:length, index])
        assert torch.equal(data["actions"][:, 0], (0.1 * torch.arange(length)).clamp(max=1.0))

    longest = wave.episodes[63].data
    differs = (longest["actions"] != longest["executed_actions"]).any(dim=1)
    half = env.max_episode_length // 2
    assert differs[:half].any()
    assert not differs[half + 1 :].any(), "the second half is for the way back"


def test_episodes_with_a_fault_are_no_demonstrations() -> None:
    env = FakeEnv()
    env.guard.causes[1] = 4
    env.guard.benched[2] = True
    wave = record_wave(env, env.expert(), 7)
    assert wave is not None
    assert (list(wave.episodes), wave.successes) == ([0], 1)


def test_a_wave_that_is_stopped_leaves_nothing(file: DemoFile) -> None:
    answers = iter([False] * 3 + [True])
    record(FakeEnv(), job(file, 2), stopped=lambda: next(answers))
    assert (file.progress().attempts, list(file.parts.glob("*.hdf5"))) == (0, [])


def test_only_successful_episodes_are_kept_and_no_more_than_asked_for(file: DemoFile) -> None:
    said: list[str] = []
    record(FakeEnv(), job(file, 5, "seed=4"), say=said.append)
    file.merge()
    assert [
        tuple(episode[name] for name in ("seed", "success", "num_samples")) for episode in attributes_of(file.path)
    ] == [
        *((4, True, STEPS), (4, True, STEPS + 1)),
        *((5, True, STEPS), (5, True, STEPS + 2)),
        (6, True, STEPS + 1),
    ]
    assert said[-1].startswith("5/5 ")
    assert "66.7 %" in said[-1]
    with h5py.File(file.path) as content:
        assert content["data/demo_3"].attrs["env"] == 2


def test_failed_episodes_are_kept_where_all_are(file: DemoFile) -> None:
    record(FakeEnv(), replace(job(file, 4, "seed=4"), keep="all"))
    file.merge()
    kept = [(episode["seed"], episode["success"]) for episode in attributes_of(file.path)]
    assert kept == [(4, True), (4, True), (4, False), (5, True)]


def test_going_on_takes_new_seeds_but_never_that_of_evaluations(file: DemoFile) -> None:
    run = ("seed=4", "eval.seed=6", "eval.best_seed=8")
    first, second = FakeEnv(), FakeEnv()
    record(first, job(file, 3, *run))
    file.merge()
    record(second, job(file, 6, *run))
    assert (first.seeds, second.seeds) == ([4, 5], [7, 9])


def test_a_policy_that_solves_nothing_is_given_up(file: DemoFile) -> None:
    class Failing(FakeEnv):
        def step(self, actions: torch.Tensor) -> tuple:
            result = super().step(actions)
            self.episode_success[:] = False
            return result

    with pytest.raises(RuntimeError, match=f"{GIVE_UP_AFTER} episodes"):
        record(Failing(num_envs=32), job(file, 1))

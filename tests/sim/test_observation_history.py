# SPDX-License-Identifier: BSD-3-Clause
"""A real environment whose policy observes the last frames of its episode."""

from collections.abc import Callable

import pytest
import torch

from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.envs.quantities import vector_quantities

pytestmark = pytest.mark.sim

NUM_ENVS, LENGTH = 3, 3


@pytest.fixture(scope="module")
def env(make_env: Callable):
    fields = {"history_length": LENGTH, "compute_final_obs": True, "scene.points.num_points": 32}
    return make_env("IsaacPC-Reach-Franka-Direct", NUM_ENVS, **fields)


def frames_of(env, observation: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the groups that have a history, each (N, H, ...)."""
    return {"policy": observation["policy"].unflatten(1, (LENGTH, -1)), "points": observation["points"]}


def step(env) -> dict[str, torch.Tensor]:
    observation, *_ = env.step(torch.rand(NUM_ENVS, env.cfg.action_space) * 2.0 - 1.0)
    return observation


def test_the_spaces_know_all_frames(env) -> None:
    observation, _ = env.reset(seed=1)
    spaces = env.single_observation_space.spaces
    assert {name: (NUM_ENVS, *space.shape) for name, space in spaces.items()} == {
        name: tuple(value.shape) for name, value in observation.items()
    }
    assert spaces["points"].shape == (LENGTH, 32, 3)
    assert observation["points"].dtype == torch.float16
    assert LENGTH * sum(quantity.size for quantity in vector_quantities(env)) == spaces["policy"].shape[0]


def test_frames_move_back_step_by_step_and_begin_anew_with_each_episode(env) -> None:
    torch.manual_seed(0)
    observation, _ = env.reset(seed=1)
    for value in frames_of(env, observation).values():
        assert torch.equal(value, value[:, -1:].expand_as(value))

    # The second environment runs out of time two steps before the last one that is looked at.
    env.episode_length_buf[1] = env.max_episode_length - 2
    for index in range(4):
        before = frames_of(env, observation)
        observation = step(env)
        seen = newest_frame(observation, LENGTH)
        assert torch.equal(seen["policy"][:, :7], env.arm_state.observed[:, :7])
        for name, value in frames_of(env, observation).items():
            is_new = env.episode_length_buf == 0
            assert is_new.tolist() == [False, index == 1, False]
            assert torch.equal(value[~is_new, :-1], before[name][~is_new, 1:]), name
            assert torch.equal(value[is_new], value[is_new, -1:].expand_as(value[is_new])), name
            assert not torch.equal(value[~is_new, -1], value[~is_new, -2]), name
        if index == 1:
            final = frames_of(env, env.extras["final_obs"])
            for name, value in final.items():
                assert torch.equal(value[1, :-1], before[name][1, 1:]), name
                assert not torch.equal(value[1, -1], frames_of(env, observation)[name][1, -1]), name


def test_a_bad_frame_is_zeros_and_is_forgotten_with_its_episode(env, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(seed=1)
    real = env._observe

    def broken() -> dict[str, torch.Tensor]:
        observation = real()
        observation["points"][1] = torch.nan
        return observation

    monkeypatch.setattr(env, "_observe", broken)
    observation = step(env)
    monkeypatch.setattr(env, "_observe", real)
    assert all(value.isfinite().all() for value in observation.values())
    assert not any(value[1, -1].any() for value in frames_of(env, observation).values())

    # It is reset before the next step, whose frame is the first one of the new episode.
    for value in frames_of(env, step(env)).values():
        assert torch.equal(value[1], value[1, -1:].expand_as(value[1]))
        assert value[1].any()


def test_episodes_may_have_one_step(env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env.cfg, "episode_length_s", env.step_dt)
    assert env.max_episode_length == 1
    env.reset(seed=3)
    act = env.expert()
    for episode in range(1, 4):
        assert env.episode_index.tolist() == [episode] * NUM_ENVS
        observation, reward, terminated, truncated, extras = env.step(act())
        assert truncated.all()
        assert not terminated.any()
        assert reward.isfinite().all()
        assert not env.episode_length_buf.any()
        for group in (observation, extras["final_obs"]):
            assert all(value.shape[0] == NUM_ENVS and value.isfinite().all() for value in group.values())
        # The frames of an episode that has just begun are all its first.
        for value in frames_of(env, observation).values():
            assert torch.equal(value, value[:, -1:].expand_as(value))
        assert float(extras["log"]["Metrics/success_rate"]) == 0.0

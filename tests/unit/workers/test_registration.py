# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that gymnasium wraps as they are registered, and those of several agents: refused before they start."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import wrappers
from gymnasium.envs.registration import WrapperSpec

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.workers import registration, session
from isaaclab_pc.workers.resolve import resolve

TASK = "IsaacPC-Test-Registration-Franka-Direct"
REACH = "isaaclab_pc.tasks.reach.reach_env_cfg:ReachEnvCfg"


class OwnWrapper(gym.Wrapper):
    pass


@pytest.fixture
def resolved() -> Iterator[Callable]:
    """Register a task as its package may do, and resolve it."""

    def resolved(env_cfg: Any = REACH, **fields: Any) -> Any:
        agents = gym.spec("IsaacPC-Reach-Franka-Direct").kwargs
        given = {"entry_point": "others.task.env:Env", **fields}
        gym.register(TASK, kwargs={**agents, "env_cfg_entry_point": env_cfg}, **given)
        return resolve(compose([f"task={TASK}", "device=cpu", "physics=newton_mjwarp"]), 4, "test")

    yield resolved
    gym.registry.pop(TASK, None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_episode_steps": 50}, "max_episode_steps=50"),
        ({"max_episode_steps": -1}, "max_episode_steps=-1"),
        ({"additional_wrappers": (wrappers.TimeLimit.wrapper_spec(max_episode_steps=9),)}, "TimeLimit"),
        ({"additional_wrappers": (wrappers.RecordEpisodeStatistics.wrapper_spec(),)}, "RecordEpisodeStatistics"),
        (
            {"additional_wrappers": (wrappers.FrameStackObservation.wrapper_spec(stack_size=2),)},
            "FrameStackObservation",
        ),
        ({"entry_point": None, "vector_entry_point": "others.task.env:VectorEnv"}, "vector_entry_point"),
    ],
)
def test_what_fails_in_a_training_is_refused_by_its_name(resolved: Callable, fields: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{TASK} .*{named}"):
        resolved(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"order_enforce": False},
        {"disable_env_checker": True},
        {"additional_wrappers": (wrappers.ClipAction.wrapper_spec(),)},
        {"additional_wrappers": (WrapperSpec("Own", f"{__name__}:OwnWrapper", {}),)},
    ],
)
def test_what_takes_many_environments_stays(resolved: Callable, fields: dict) -> None:
    assert resolved(**fields).settings.task == TASK


@pytest.mark.parametrize("agents_of", ["DirectMARLEnvCfg", "ManagerBasedEnvCfg"])
def test_tasks_that_no_single_agent_learns_are_refused(resolved: Callable, agents_of: str) -> None:
    import isaaclab.envs

    with pytest.raises(ConfigError, match=rf"^{TASK} .*{agents_of}"):
        resolved(env_cfg=getattr(isaaclab.envs, agents_of))


def test_isaac_labs_own_tasks_of_several_agents_are_refused_whatever_the_library() -> None:
    for runner in ("rsl_rl", "skrl"):
        settings = compose([f"runner={runner}", "algorithm=ppo", "device=cpu", "physics=newton_mjwarp"])
        with pytest.raises(ConfigError, match=r"^Isaac-Pendulum-MARL-Direct .*Cfg"):
            resolve(settings.with_values({"task": "Isaac-Pendulum-MARL-Direct"}), 4, "test")


class _Env(gym.Env):
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    "wrapped", [lambda env: wrappers.TimeLimit(env, 9), lambda env: OwnWrapper(wrappers.Autoreset(env))]
)
def test_an_entry_point_that_wraps_by_itself_is_refused_and_closed(
    resolved: Callable, monkeypatch: pytest.MonkeyPatch, wrapped: Callable
) -> None:
    import isaaclab.app

    env = _Env()
    monkeypatch.setattr(isaaclab.app, "launch_simulation", lambda *_: nullcontext())
    monkeypatch.setattr(gym, "make", lambda task, cfg: wrapped(env))
    with pytest.raises(ConfigError, match=r"TimeLimit|Autoreset"), session.open_env(resolved()):
        pass
    assert env.closed


def test_wrappers_of_others_and_those_of_every_registration_are_no_matter() -> None:
    registration.check_wrappers(TASK, OwnWrapper(wrappers.OrderEnforcing(_Env())))

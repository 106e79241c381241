# SPDX-License-Identifier: BSD-3-Clause
"""Hooks into the steps of both kinds of environments."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook, set_step_filter

ACTION = torch.ones(2, 1)


class DirectEnv:
    """Writes into ``calls`` what happens in a step."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.dones = torch.tensor([False, True]), torch.tensor([False, False])

    def step(self, action: torch.Tensor) -> tuple:
        self._pre_physics_step(action)
        self.calls.append("physics")
        terminated, truncated = self._get_dones()
        reward = self._get_rewards()
        self._reset_idx((terminated | truncated).nonzero().squeeze(-1))
        return action, reward, terminated, truncated, {}

    def reset(self, seed: int | None = None) -> tuple:
        self._reset_idx(torch.arange(2))
        return torch.zeros(2), {"seed": seed}

    def close(self) -> None:
        self.calls.append("close")

    def _pre_physics_step(self, action: torch.Tensor) -> None:
        self.calls.append(f"targets {action.sum():g}")

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.append("dones")
        return self.dones

    def _get_rewards(self) -> torch.Tensor:
        self.calls.append("rewards")
        return torch.ones(2)

    def _reset_idx(self, env_ids: torch.Tensor) -> None:
        self.calls.append(f"reset {env_ids.tolist()}")


class ManagedEnv(DirectEnv):
    """The same, with managers."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.action_manager = SimpleNamespace(process_action=self._pre_physics_step)
        masks = torch.zeros(2, 2, dtype=torch.bool)
        self.termination_manager = SimpleNamespace(compute=self._compute, terminated=masks[0], time_outs=masks[1])
        self.reward_manager = SimpleNamespace(compute=lambda dt: self._get_rewards())

    def step(self, action: torch.Tensor) -> tuple:
        self.action_manager.process_action(action)
        self.calls.append("physics")
        done = self.termination_manager.compute()
        reward = self.reward_manager.compute(dt=0.1)
        self._reset_idx(done.nonzero().squeeze(-1))
        return action, reward, self.termination_manager.terminated, self.termination_manager.time_outs, {}

    def _compute(self) -> torch.Tensor:
        self.calls.append("dones")
        self.termination_manager.terminated[:] = torch.tensor([False, True])
        self.termination_manager.time_outs[:] = False
        return self.termination_manager.terminated | self.termination_manager.time_outs


class Watch(StepHook):
    """Writes down each of its calls under a name."""

    def __init__(self, env: Any, name: str) -> None:
        self._env, self._name = env, name

    def before_step(self, action: torch.Tensor) -> None:
        self._env.calls.append(f"{self._name} before {action.sum():g}")

    def after_targets(self) -> None:
        self._env.calls.append(f"{self._name} targets")

    def after_physics(self) -> None:
        self._env.calls.append(f"{self._name} physics")

    def after_step(self) -> None:
        self._env.calls.append(f"{self._name} after")

    def close(self) -> None:
        self._env.calls.append(f"{self._name} close")


class Change:
    """Takes 3 times the action, ends the other episode, and pays -1."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def before_step(self, action: torch.Tensor) -> torch.Tensor:
        self._env.calls.append("filter before")
        return 3.0 * action

    def before_dones(self) -> None:
        self._env.calls.append("filter state")

    def after_dones(self, terminated: torch.Tensor, truncated: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self._env.calls.append("filter dones")
        return ~terminated, truncated

    def after_reward(self, reward: torch.Tensor) -> torch.Tensor:
        self._env.calls.append("filter reward")
        return -reward

    def on_reset(self, env_ids: Any) -> None:
        self._env.calls.append("filter reset")

    def after_step(self, result: tuple) -> tuple:
        self._env.calls.append("filter after")
        return (*result[:4], {"filtered": True})

    def before_reset(self) -> None:
        self._env.calls.append("filter before reset")

    def after_reset(self, result: tuple) -> tuple:
        return result[0] + 5.0, result[1]


OWN = ["targets 2", "physics", "dones", "rewards", "reset [1]"]
"""Calls of a step without hooks."""


@pytest.fixture(params=[DirectEnv, ManagedEnv])
def env(request: pytest.FixtureRequest) -> Any:
    return request.param()


def calls_of_a_step(env: Any) -> list[str]:
    env.calls.clear()
    env.step(ACTION)
    return list(env.calls)


def test_hooks_see_what_was_given_and_what_is_final_and_a_filter_changes_what_is_between(env: Any) -> None:
    add_step_hook(env, Watch(env, "a"))
    set_step_filter(env, Change(env))
    add_step_hook(env, Watch(env, "b"))
    assert calls_of_a_step(env) == [
        *("a before 2", "b before 2", "filter before", "targets 6", "a targets", "b targets", "physics"),
        *("a physics", "b physics", "filter state", "dones", "filter dones", "rewards", "filter reward"),
        *("reset [0]", "filter reset", "filter after", "a after", "b after"),
    ]


def test_what_a_filter_returns_is_what_the_caller_gets(env: Any) -> None:
    set_step_filter(env, Change(env))
    obs, reward, terminated, truncated, extras = env.step(ACTION)
    assert obs.flatten().tolist() == [3.0, 3.0]
    assert reward.tolist() == [-1.0, -1.0]
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, False])
    assert extras == {"filtered": True}
    obs, extras = env.reset(seed=4)
    assert (obs.tolist(), extras) == ([5.0, 5.0], {"seed": 4})
    assert env.calls[-3:] == ["filter before reset", "reset [0, 1]", "filter reset"]
    with pytest.raises(ValueError, match="filter"):
        set_step_filter(env, Change(env))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_hooks_are_removed_in_any_order(env: Any, order: tuple) -> None:
    removals = [add_step_hook(env, Watch(env, name)) for name in "abc"]
    left = ["a", "b", "c"]
    for index in order:
        removals[index]()
        left.remove("abc"[index])
        after = [call for call in calls_of_a_step(env) if call.endswith("after")]
        assert after == [f"{name} after" for name in left]
    assert calls_of_a_step(env) == OWN
    removals[0]()
    assert calls_of_a_step(env) == OWN, "removing it again does nothing"


def test_another_patch_over_the_hooks_outlives_them(env: Any) -> None:
    remove = add_step_hook(env, Watch(env, "a"))
    hooked = env.step

    def patched(action: torch.Tensor) -> Any:
        env.calls.append("patch")
        return hooked(action)

    env.step = patched
    remove()
    assert calls_of_a_step(env) == ["patch", *OWN]
    add_step_hook(env, Watch(env, "b"))
    calls = calls_of_a_step(env)
    assert calls[0] == "patch"
    assert [call for call in calls if call.startswith("b")] == ["b before 2", "b targets", "b physics", "b after"]


def test_a_hook_may_remove_itself_in_a_step(env: Any) -> None:
    class Once(Watch):
        def after_step(self) -> None:
            super().after_step()
            remove()

    remove = add_step_hook(env, Once(env, "a"))
    add_step_hook(env, Watch(env, "b"))
    assert calls_of_a_step(env)[-2:] == ["a after", "b after"]
    assert calls_of_a_step(env)[-2:] == ["reset [1]", "b after"]


def test_an_exception_of_a_hook_or_of_the_task_ends_the_step_and_the_next_one_is_whole(env: Any) -> None:
    class Failing(Watch):
        fails = True

        def after_physics(self) -> None:
            if self.fails:
                raise RuntimeError("no")

    failing = Failing(env, "a")
    add_step_hook(env, failing)
    add_step_hook(env, Watch(env, "b"))
    with pytest.raises(RuntimeError, match="no"):
        env.step(ACTION)
    assert env.calls[-1] == "physics"
    failing.fails = False
    assert calls_of_a_step(env)[-2:] == ["a after", "b after"]


def test_closing_tells_every_hook_once_and_closes_whatever_they_raise(env: Any) -> None:
    class Failing(Watch):
        def close(self) -> None:
            super().close()
            raise RuntimeError("disk full")

    for watch in (Watch(env, "a"), Failing(env, "b"), Watch(env, "c")):
        add_step_hook(env, watch)
    with pytest.raises(RuntimeError, match="disk full"):
        env.close()
    assert env.calls == ["a close", "b close", "c close", "close"]
    env.close()
    assert env.calls[4:] == ["close"]

# SPDX-License-Identifier: BSD-3-Clause
"""The guard around an environment that knows nothing of it, in Isaac Lab's own step without a simulator."""

import math
from types import MappingProxyType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import warp as wp
from isaaclab.envs import DirectRLEnv

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards import Guard, GuardCfg, attach_guard

NUM_ENVS, SICK = 4, 1
NAN = math.nan


class CountingEnv(DirectRLEnv):
    """Sums up its actions; the sum is also the reward."""

    def __init__(self) -> None:
        self.cfg: Any = SimpleNamespace(
            action_noise_model=None, observation_noise_model=None, compute_final_obs=False, events=None, decimation=1
        )
        self.cfg.sim, self.cfg.wait_for_textures = SimpleNamespace(render_interval=1, dt=0.1), False
        nothing = lambda *args, **kwargs: None  # noqa: E731
        self.sim: Any = SimpleNamespace(device="cpu", is_rendering=False, step=nothing, forward=nothing)
        self.sim.consume_reset_request = lambda: False
        self.scene: Any = SimpleNamespace(num_envs=NUM_ENVS, env_origins=torch.zeros(NUM_ENVS, 3))
        self.scene.write_data_to_sim = self.scene.update = self.scene.reset = nothing
        # Shared by all environments: no state of any of them.
        self.scene.articulations = {}
        self.scene.rigid_objects = {"table": SimpleNamespace(num_instances=1)}
        self.has_rtx_sensors, self.render_enabled, self.video_recorders = False, False, []
        self._physics_handles_decimation, self._sim_step_counter, self.common_step_counter = False, 0, 0
        self._is_closed, self.extras = True, {}
        self.episode_length_buf = torch.zeros(NUM_ENVS, dtype=torch.long)
        self.reset_terminated, self.reset_time_outs = torch.zeros(2, NUM_ENVS, dtype=torch.bool)
        self.total = torch.zeros(NUM_ENVS)
        self.resets: list[list[int]] = []
        self.taken: list[torch.Tensor] = []
        self.bad_reward: float | None = None
        self.bad_obs: float | None = None
        self.done, self.out_of_time = torch.zeros(2, NUM_ENVS, dtype=torch.bool)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self.taken.append(actions)
        self.total = self.total + actions.sum(-1)

    def _apply_action(self) -> None:
        pass

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.done, self.out_of_time

    def _get_rewards(self) -> torch.Tensor:
        reward = self.total.clone()
        if self.bad_reward is not None:
            reward[SICK] = self.bad_reward
        return reward

    def _get_observations(self) -> Any:
        values = self.total[:, None].repeat(1, 2)
        if self.bad_obs is not None:
            values[SICK, 1] = self.bad_obs
        pixels = torch.full((NUM_ENVS, 2, 2, 3), 7, dtype=torch.uint8)
        return {"policy": self.total[:, None].clone(), "cameras": {"rgb": pixels, "range": values.double()}}

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        self.resets.append(env_ids.tolist())
        self.total[env_ids] = 0.0


def guarded(space: gym.Space | None = None, **fields: Any) -> tuple[CountingEnv, Guard]:
    env = CountingEnv()
    if space is not None:
        env.single_action_space = space
    guard = attach_guard(env, GuardCfg(**fields), "Foreign")
    env.reset()
    env.resets.clear()
    return env, guard


def step(env: CountingEnv, value: float = 1.0, action: torch.Tensor | None = None) -> Any:
    return env.step(torch.full((NUM_ENVS, 1), value) if action is None else action)


def only(env: int = SICK) -> list[bool]:
    return [index == env for index in range(NUM_ENVS)]


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf, 1e30])
def test_a_bad_action_is_not_taken_and_ends_its_environment(value: float) -> None:
    env, guard = guarded()
    action = torch.ones(NUM_ENVS, 1)
    action[SICK] = value
    obs, reward, terminated, truncated, extras = step(env, action=action)
    assert env.taken[-1].flatten().tolist() == [0.0 if sick else 1.0 for sick in only()]
    assert terminated.tolist() == only()
    assert not truncated.any()
    assert reward.tolist() == [0.0 if sick else 1.0 for sick in only()]
    assert env.resets == [[SICK]], "in the step of the fault"
    assert env.episode_length_buf.tolist() == [0 if sick else 1 for sick in only()]
    assert obs["policy"].isfinite().all()
    assert extras["log"]["Guard/action"] == 1
    assert not step(env)[2].any()
    assert int(guard.counts["action"]) == 1


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_a_bad_reward_ends_its_environment_as_set(ends: str) -> None:
    env, guard = guarded(ends=ends)
    env.bad_reward = NAN
    env.done = torch.tensor(only())
    _, reward, terminated, truncated, _ = step(env)
    ended, other = (terminated, truncated) if ends == "terminated" else (truncated, terminated)
    assert ended.tolist() == only()
    assert not other.any()
    assert reward.isfinite().all()
    assert env.resets == [[SICK]]
    assert env.done.tolist() == only(), "a tensor of the task stays as it is"
    assert int(guard.counts["reward"]) == 1


@pytest.mark.parametrize("value", [NAN, math.inf, -1e30])
def test_a_bad_observation_in_a_nested_group_is_filled_and_its_environment_reset_before_the_next_step(
    value: float,
) -> None:
    env, guard = guarded()
    env.bad_obs = value
    obs, reward, terminated, _, _ = step(env)
    env.bad_obs = None
    assert terminated.tolist() == only()
    assert reward[SICK] == 0.0
    assert env.resets == []
    for group in (obs["policy"], obs["cameras"]["rgb"], obs["cameras"]["range"]):
        assert not group[SICK].any()
        assert group[0].any()
    assert obs["cameras"]["range"].dtype == torch.float64
    assert env.obs_buf is obs, "learning libraries' wrappers read it there"
    obs = step(env)[0]
    assert env.resets == [[SICK]]
    assert env.episode_length_buf.tolist() == [1 if sick else 2 for sick in only()]
    assert obs["policy"].flatten().tolist() == [1.0 if sick else 2.0 for sick in only()]
    assert int(guard.counts["observation"]) == 1


def test_a_bad_observation_of_a_reset_is_filled_and_reset_again() -> None:
    env = CountingEnv()
    attach_guard(env, GuardCfg(), "Foreign")
    env.bad_obs = NAN
    obs: Any = env.reset()[0]
    env.bad_obs = None
    assert not obs["cameras"]["range"][SICK].any()
    step(env)
    assert env.resets == [list(range(NUM_ENVS)), [SICK]]


def test_an_episode_that_ended_by_itself_stays_as_it_ended_if_the_next_one_begins_badly() -> None:
    env, _ = guarded(ends="truncated")
    env.bad_obs = NAN
    env.done = torch.tensor(only())
    _, reward, terminated, truncated, _ = step(env)
    env.bad_obs = None
    env.done = torch.zeros(NUM_ENVS, dtype=torch.bool)
    assert reward.tolist() == [1.0] * NUM_ENVS
    assert (terminated.tolist(), truncated.any()) == (only(), False)
    step(env)
    assert env.resets == [[SICK], [SICK]]


def test_sanitize_repairs_and_ends_nothing_however_often() -> None:
    env, guard = guarded(mode="sanitize", max_abs=5.0, bench_after=1)
    env.bad_reward, env.bad_obs = math.inf, -math.inf
    action = torch.ones(NUM_ENVS, 1)
    action[SICK] = NAN
    for _ in range(4):
        obs, reward, terminated, truncated, _ = step(env, action=action)
        assert env.taken[-1].flatten().tolist() == [0.0 if sick else 1.0 for sick in only()]
        assert reward[SICK] == 5.0
        assert obs["cameras"]["range"][SICK].tolist() == [0.0, -5.0]
        assert obs["cameras"]["range"].dtype == torch.float64
        assert not (terminated | truncated).any()
    assert env.resets == []
    assert not guard.benched.any()
    assert int(guard.env_counts[SICK]) == 4


class Box:
    """A rigid object that physics moves on request, where ``fly_away`` is true."""

    num_instances = NUM_ENVS
    cfg = SimpleNamespace(spawn=None)

    def __init__(self) -> None:
        pose = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]).repeat(NUM_ENVS, 1)
        velocity = torch.zeros(NUM_ENVS, 6)
        self.pose = pose.clone()
        self.fly_away = False
        self.data = SimpleNamespace(
            root_link_pose_w=SimpleNamespace(torch=self.pose, warp=wp.from_torch(self.pose, dtype=wp.transformf)),
            root_com_vel_w=SimpleNamespace(torch=velocity, warp=wp.from_torch(velocity, dtype=wp.spatial_vectorf)),
            default_root_pose=SimpleNamespace(torch=pose),
            default_root_vel=SimpleNamespace(torch=velocity),
        )

    def step(self, *args: Any, **kwargs: Any) -> None:
        if self.fly_away:
            self.pose[SICK] = NAN

    def write_root_pose_to_sim_index(self, root_pose: torch.Tensor, env_ids: torch.Tensor) -> None:
        self.pose[env_ids.long()] = root_pose

    def write_root_velocity_to_sim_index(self, root_velocity: torch.Tensor, env_ids: torch.Tensor) -> None:
        pass


def test_the_task_never_reads_a_bad_state_not_even_of_a_benched_environment() -> None:
    env, box = CountingEnv(), Box()
    env.scene.rigid_objects = {"box": box}
    env.sim.step = box.step
    read: list[torch.Tensor] = []

    def reward() -> torch.Tensor:
        read.append(box.pose.clone())
        return box.pose[:, 0] + 1.0

    env._get_rewards = reward
    guard = attach_guard(env, GuardCfg(bench_after=1), "Foreign")
    env.reset()
    box.fly_away = True
    ended = [bool(step(env)[2][SICK]) for _ in range(4)]
    assert ended == [True, True, False, False]
    assert guard.benched.tolist() == only()
    assert all(pose.isfinite().all() for pose in read)
    obs, paid, _, _, _ = step(env)
    assert paid[SICK] == 0.0
    assert not obs["policy"][SICK].any()
    box.fly_away = False
    env.reset()
    assert step(env)[1].all(), "a reset of all gives it a new chance"


def test_the_episodes_of_a_benched_environment_end_by_time_out_alone() -> None:
    env, guard = guarded()
    guard.benched[SICK] = True
    guard.end_step()
    env.done = torch.tensor(only())
    assert not step(env)[2].any()
    env.out_of_time = torch.tensor(only())
    _, _, terminated, truncated, _ = step(env)
    assert not terminated.any()
    assert truncated.tolist() == only(), "an evaluation waits for the ends of all environments' episodes"


def test_what_cannot_be_guarded_is_refused_and_what_need_not_be_is_left_alone() -> None:
    env = CountingEnv()
    before = set(vars(env))
    attach_guard(env, GuardCfg(mode="disabled"), "Foreign")
    assert set(vars(env)) == before
    env, _ = guarded()
    with pytest.raises(ConfigError, match="guard already"):
        attach_guard(env, GuardCfg(), "Foreign")
    with pytest.raises(ConfigError, match=r"guard\.mode=disabled"):
        attach_guard(SimpleNamespace(unwrapped=object()), GuardCfg(), "Foreign")
    with pytest.raises(ConfigError, match=r"guard\.max_abs"):
        attach_guard(CountingEnv(), GuardCfg(max_abs=-1.0), "Foreign")


def test_an_episode_that_a_bad_final_observation_ended_is_reset() -> None:
    env, _ = guarded()
    env.cfg.compute_final_obs = True
    # Another environment's episode ends, so the final observation is computed for all.
    env.done = torch.tensor(only(SICK + 1))
    observe, asked = env._get_observations, []

    def noisy() -> Any:
        asked.append(None)
        env.bad_obs = NAN if len(asked) == 1 else None
        return observe()

    env._get_observations = noisy  # type: ignore[method-assign]
    _, _, terminated, _, extras = step(env)
    assert terminated.tolist() == [index in (SICK, SICK + 1) for index in range(NUM_ENVS)]
    final = extras["final_obs"]["cameras"]["range"]
    assert not final[SICK].any()
    assert final.isfinite().all()
    env.done = torch.zeros(NUM_ENVS, dtype=torch.bool)
    step(env)
    assert env.resets == [[SICK + 1], [SICK]]


def box(*bounds: float, shape: tuple[int, ...] = (1,)) -> gym.spaces.Box:
    low, high = bounds or (-math.inf, math.inf)
    return gym.spaces.Box(low, high, shape)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        *((torch.ones(shape), ValueError) for shape in [(NUM_ENVS, 2), (NUM_ENVS + 1, 1), (1, 1), (NUM_ENVS,), ()]),
        *((value, TypeError) for value in [np.ones((NUM_ENVS, 1), np.float32), None, [[1.0]] * NUM_ENVS]),
    ],
)
def test_actions_that_are_not_the_tasks_are_refused(wrong: Any, error: type[Exception]) -> None:
    env, _ = guarded(box())
    expected = rf"expected \({NUM_ENVS}, 1\)" if error is ValueError else type(wrong).__name__
    with pytest.raises(error, match=expected):
        env.step(wrong)
    assert env.taken == []
    assert env.common_step_counter == 0


@pytest.mark.parametrize("shape", [(NUM_ENVS,), (NUM_ENVS, 1)])
def test_choices_among_a_few_keep_their_layout(shape: tuple[int, ...]) -> None:
    env, _ = guarded(gym.spaces.Discrete(3))
    action = torch.ones(shape, dtype=torch.long)
    env.step(action)
    assert env.taken[-1] is action
    env.step(torch.full(shape, math.inf))
    assert not env.taken[-1].any()


@pytest.mark.parametrize(
    ("space", "bounds", "least", "most", "instead_of_nan"),
    [
        pytest.param(box(-2.0, 3.0), None, -2.0, 3.0, 0.0, id="bounded"),
        pytest.param(box(2.0, 3.0), None, 2.0, 3.0, 2.0, id="bounded without 0"),
        pytest.param(box(), None, -1.0, 1.0, 0.0, id="unbounded"),
        pytest.param(box(-3.4e38, 3.4e38), None, -1.0, 1.0, 0.0, id="as good as unbounded"),
        pytest.param(box(-2.0, 3.0), (-5.0, 6.0), -2.0, 3.0, 0.0, id="bounded by both"),
        pytest.param(box(2.0, math.inf), None, 2.0, 2.0, 2.0, id="bounded below"),
        pytest.param(box(-math.inf, 0.5), None, -1.0, 0.5, 0.0, id="bounded above"),
        pytest.param(None, (-5.0, 6.0), -5.0, 6.0, 0.0, id="bounded by the guard"),
    ],
)
def test_sanitize_puts_a_bad_action_where_the_task_allows_it(
    space: gym.Space | None, bounds: Any, least: float, most: float, instead_of_nan: float
) -> None:
    env, _ = guarded(space, mode="sanitize", max_abs=1e6, action=bounds)
    for bad, taken in [(math.inf, most), (1e30, most), (-math.inf, least), (-1e30, least), (NAN, instead_of_nan)]:
        action = torch.full((NUM_ENVS, 1), 2.5)
        action[SICK] = bad
        env.step(action)
        assert env.taken[-1].flatten().tolist() == [taken if sick else 2.5 for sick in only()], bad


class OddEnv(CountingEnv):
    """Returns more than tensors with a row for each environment, and logs what is no dict."""

    log: Any = None

    def _get_observations(self) -> Any:
        obs = super()._get_observations()
        half = torch.full((NUM_ENVS, 2), math.inf, dtype=torch.float16)
        odd = {"clock": torch.tensor(NAN), "pair": torch.ones(2, 3), "name": "arm", "grid": (1, 2)}
        return {**obs, "half": half, **odd}

    def step(self, action: torch.Tensor) -> Any:
        self.extras["log"] = self.log
        return super().step(action)


@pytest.mark.parametrize("mode", ["quarantine", "sanitize"])
def test_what_has_no_row_for_each_environment_is_left_as_it_is(mode: Any) -> None:
    env = OddEnv()
    attach_guard(env, GuardCfg(mode=mode, max_abs=1e6), "Foreign")
    obs = env.step(torch.ones(NUM_ENVS, 1))[0]
    assert (obs["name"], obs["grid"], obs["pair"].tolist()) == ("arm", (1, 2), torch.ones(2, 3).tolist())
    assert obs["clock"].isnan()
    assert obs["half"].dtype == torch.float16
    assert obs["half"].isfinite().all(), "1e6 is more than float16 has"


@pytest.mark.parametrize("log", [None, "swing", ["a"], MappingProxyType({"a": 1.0}), {"a": 1.0}])
def test_the_counters_are_logged_beside_whatever_the_task_logs(log: Any) -> None:
    env = OddEnv()
    env.log = log
    attach_guard(env, GuardCfg(max_abs=1e6), "Foreign")
    logged = env.step(torch.ones(NUM_ENVS, 1))[-1]["log"]
    assert int(logged["Guard/observation"]) == NUM_ENVS
    own = {name: value for name, value in logged.items() if not name.startswith("Guard/")}
    assert own == ({"a": 1.0} if hasattr(log, "items") else {"log": log})


def test_a_task_may_reset_by_a_mask() -> None:
    env, guard = guarded()
    guard.awaiting_reset.fill_(True)
    env._reset_idx(torch.tensor(only()))
    assert guard.awaiting_reset.logical_not().tolist() == only()

# SPDX-License-Identifier: BSD-3-Clause
"""Faults injected into a real environment stay in the environment that has them, for one episode."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from isaaclab_pc.guards import FaultError, Guard, GuardCfg, NoStepGuard, SceneState, StepGuard
from isaaclab_pc.processes.output_filter import Repeats
from tests.sim import guarded
from tests.sim.guarded import FAULT_STEP, NUM_ENVS, SICK, Fault, Inject, Step, put, roll_out

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env(
        "IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, compute_final_obs=True, **{"scene.points.source": "image"}
    )


@pytest.fixture(scope="module")
def clean(env) -> list[Step]:
    return roll_out(env)


def inject_object_velocity(env, monkeypatch: pytest.MonkeyPatch, sick: Mapping[int, float]) -> Fault:
    def fault(actions: torch.Tensor) -> None:
        velocity = torch.tensor(list(sick.values()))[:, None].repeat(1, 6)
        ids = torch.tensor(list(sick), dtype=torch.int32)
        env.cube.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids)

    return fault


def inject_reward(env, monkeypatch: pytest.MonkeyPatch, sick: Mapping[int, float]) -> Fault:
    return lambda _: guarded.once(monkeypatch, env, "_reward_terms", lambda terms: put(terms["reach"], sick))


def inject_reading(read: Callable[[Any], torch.Tensor]) -> Inject:
    """Overwrite a column of what the guard is about to read of the physics state."""

    def inject(env, monkeypatch: pytest.MonkeyPatch, sick: Mapping[int, float]) -> Fault:
        def fault(actions: torch.Tensor) -> None:
            real = env.scene_state.check

            def spoil_and_check() -> None:
                monkeypatch.setattr(env.scene_state, "check", real)
                put(read(env), sick)
                real()

            monkeypatch.setattr(env.scene_state, "check", spoil_and_check)

        return fault

    return inject


INJECTIONS: dict[str, tuple[Inject, set[str]]] = {
    "action": (guarded.inject_action, {"action"}),
    "joint velocity": (guarded.inject_joint_velocity, guarded.STATE_CAUSES),
    "object velocity": (inject_object_velocity, guarded.STATE_CAUSES),
    "joint position as read": (inject_reading(lambda env: env.robot.data.joint_pos.torch[:, 3]), {"joint_position"}),
    "joint velocity as read": (inject_reading(lambda env: env.robot.data.joint_vel.torch[:, 8]), {"joint_velocity"}),
    "position as read": (inject_reading(lambda env: env.cube.data.root_link_pose_w.torch[:, 2]), {"position"}),
    "quaternion as read": (inject_reading(lambda env: env.cube.data.root_link_pose_w.torch[:, 5]), {"orientation"}),
    "velocity as read": (inject_reading(lambda env: env.cube.data.root_com_vel_w.torch[:, 4]), {"velocity"}),
    "reward": (inject_reward, {"reward"}),
}


def is_refused(backend: str, where: str, value: float) -> bool:
    """Whether PhysX itself rejects or clamps such a write, so that nothing bad comes of it."""
    return backend == "ovphysx" and (where == "object velocity" or (where == "joint velocity" and value == 1e30))


def test_the_same_seed_gives_the_same_trajectory(env, clean: list[Step]) -> None:
    guarded.assert_healthy_unchanged(roll_out(env), clean, [])


@pytest.mark.parametrize("values", [guarded.ONE_EACH, guarded.ALL], ids=["one each", "all"])
@pytest.mark.parametrize("where", INJECTIONS)
def test_a_fault_ends_its_environments_in_the_same_step_and_no_other(
    env, backend: str, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str, values: dict[int, float]
) -> None:
    inject, causes = INJECTIONS[where]
    before, worst = guarded.counts(env), env.guard.env_counts.clone()
    steps = roll_out(env, inject(env, monkeypatch, values))
    sick = [index for index, value in values.items() if not is_refused(backend, where, value)]
    guarded.assert_ended(steps, sick)
    guarded.assert_healthy_unchanged(steps, clean, list(values))
    assert bool(steps[FAULT_STEP].final_obs) == bool(sick)
    counted = guarded.newly_counted(env, before)
    assert set(counted) <= causes
    assert sum(counted.values()) == len(sick)
    assert (env.guard.env_counts - worst).tolist() == [int(index in sick) for index in range(NUM_ENVS)]
    assert env.episode_index.tolist() == [1 + (index in sick) for index in range(NUM_ENVS)]


def inject_observation(env, monkeypatch: pytest.MonkeyPatch, group: str, sick: Mapping[int, float]) -> Fault:
    def spoil(observation: dict[str, torch.Tensor]) -> None:
        put(observation[group].view(NUM_ENVS, -1)[:, -1], sick)

    return lambda _: guarded.once(monkeypatch, env, "_observe", spoil)


@pytest.mark.parametrize("group", ["policy", "points", "critic"])
def test_a_bad_observation_is_filled_and_its_environment_reset_before_the_next_physics_step(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    before = guarded.counts(env)
    steps = roll_out(env, inject_observation(env, monkeypatch, group, guarded.ONE_EACH))
    guarded.assert_ended_by_observation(steps, clean, list(guarded.ONE_EACH))
    assert guarded.newly_counted(env, before) == {"observation": len(guarded.ONE_EACH)}


def test_an_episode_that_ended_by_itself_stays_as_it_ended_if_the_next_one_begins_badly(
    env, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the first observation of this step would be the last one of the episode that ended.
    monkeypatch.setattr(env.cfg, "compute_final_obs", False)
    spoil = inject_observation(env, monkeypatch, "points", {SICK: math.nan})

    def time_out(actions: torch.Tensor) -> None:
        env.episode_length_buf[SICK] = env.max_episode_length

    def time_out_and_spoil(actions: torch.Tensor) -> None:
        time_out(actions)
        spoil(actions)

    expected = roll_out(env, time_out)[FAULT_STEP]
    ended, after = roll_out(env, time_out_and_spoil)[FAULT_STEP : FAULT_STEP + 2]
    assert ended.truncated[SICK]
    assert not ended.terminated.any()
    assert torch.equal(ended.reward, expected.reward)
    assert not ended.obs["points"][SICK].any()
    assert after.length[SICK] == 1, "it is reset before the next step"


def test_a_broken_image_ends_its_environment_which_is_reset_before_the_next_physics_step(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    sick: dict[int, float] = {0: math.nan, 1: -math.inf, SICK: -1.0, 4: 1e30}
    kind, real_step = type(env.camera), env.step
    real_data = kind.data

    def broken_data(camera) -> Any:
        data = real_data.fget(camera)
        put(data.output["depth"].torch[:, 3, 4], sick)
        return data

    def step_with_broken_images(action: torch.Tensor) -> Any:
        monkeypatch.setattr(kind, "data", property(broken_data))
        env.episode_success[SICK] = True  # an earlier episode's
        result = real_step(action)
        monkeypatch.setattr(kind, "data", real_data)
        monkeypatch.setattr(env, "step", real_step)
        return result

    before = guarded.counts(env)
    steps = roll_out(env, lambda _: monkeypatch.setattr(env, "step", step_with_broken_images))
    guarded.assert_ended_by_observation(steps, clean, list(sick))
    assert guarded.newly_counted(env, before) == {"depth": len(sick)}
    assert not env.episode_success[SICK], "a broken episode is no success"


def test_a_healed_environment_goes_on_as_after_any_other_reset(env, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.assert_healed_as_after_any_reset(env, guarded.inject_joint_velocity(env, monkeypatch, {SICK: math.nan}))


def use_guard(env, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Guard:
    """Give the environment a guard of its own for one test."""
    cfg = GuardCfg()
    for name, value in fields.items():
        setattr(cfg, name, value)
    guard = Guard(cfg, NUM_ENVS, "cpu", task="Lift")
    monkeypatch.setattr(env, "guard", guard)
    monkeypatch.setattr(env, "scene_state", SceneState(guard, env.scene))
    monkeypatch.setattr(env, "step_guard", StepGuard(env, guard, env.scene_state) if guard.enabled else NoStepGuard())
    return guard


@pytest.mark.parametrize("where", INJECTIONS)
def test_sanitize_replaces_bad_values_and_ends_no_episode(
    env, backend: str, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    guard = use_guard(env, monkeypatch, mode="sanitize")
    inject, causes = INJECTIONS[where]
    steps = roll_out(env, inject(env, monkeypatch, guarded.ONE_EACH))
    counted = {cause for cause, count in guard.counts.items() if count > 0}
    assert counted or is_refused(backend, where, math.nan)
    assert counted <= causes
    assert not any(step.terminated.any() for step in steps)
    guarded.assert_healthy_unchanged(steps, clean, list(guarded.ONE_EACH))
    assert env.robot.data.joint_pos.torch.isfinite().all()
    assert env.cube.data.root_link_pose_w.torch.isfinite().all()


@pytest.mark.parametrize(
    ("where", "tensor"), [("action", "actions"), ("joint velocity as read", "robot"), ("position as read", "cube")]
)
def test_raise_stops_and_names_the_tensor(env, monkeypatch: pytest.MonkeyPatch, where: str, tensor: str) -> None:
    use_guard(env, monkeypatch, mode="raise")
    inject, causes = INJECTIONS[where]
    with pytest.raises(FaultError, match=rf"Lift.* {tensor} .*\({SICK}\).* {FAULT_STEP + 1}\b") as one:
        roll_out(env, inject(env, monkeypatch, {SICK: math.nan}))
    assert set(one.value.causes) <= causes


def test_disabled_runs_none_of_the_guards_code(env, clean: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    use_guard(env, monkeypatch, mode="disabled")

    def called(*args: object, **kwargs: object) -> None:
        raise AssertionError("the guard ran")

    for owner in (Guard, SceneState, StepGuard):
        for name, value in vars(owner).items():
            if isinstance(value, property):
                monkeypatch.setattr(owner, name, property(called))
            elif callable(value):
                monkeypatch.setattr(owner, name, called)
    guarded.assert_healthy_unchanged(roll_out(env), clean, [])


def test_an_environment_that_fails_again_and_again_is_benched(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = use_guard(env, monkeypatch, bench_after=1)
    real = env.scene_state.check

    def always() -> None:
        env.robot.data.joint_vel.torch[SICK] = math.nan
        real()

    monkeypatch.setattr(env.scene_state, "check", always)
    steps = roll_out(env)
    assert [bool(step.terminated[SICK]) for step in steps] == [True, True, False, False, False, False]
    assert int(guard.counts["joint_velocity"]) == 2
    assert guard.benched.tolist() == [index == SICK for index in range(NUM_ENVS)]
    assert steps[-1].log["Guard/benched"] == 1.0
    default = env.robot.data.default_joint_pos.torch[SICK]
    assert (env.robot.data.joint_pos.torch[SICK, :7] - default[:7]).abs().max() < 0.1
    assert all(step.reward[SICK] == 0.0 for step in steps)
    assert all(not group[SICK].any() for step in steps[2:] for group in step.obs.values())
    guarded.assert_healthy_unchanged(steps, clean, [SICK])


def test_what_physx_prints_of_a_bad_state_is_a_flood_of_one_kind_of_line(
    env, backend: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if backend != "ovphysx":
        pytest.skip("Newton prints nothing")
    use_guard(env, monkeypatch, mode="disabled")
    env.reset(seed=1)
    guarded.inject_joint_velocity(env, monkeypatch, {SICK: math.nan})(torch.empty(0))
    for _ in range(40):
        env.step(torch.zeros(NUM_ENVS, env.cfg.action_space))
    repeats = Repeats()
    for line in "".join(capfd.readouterr()).splitlines():
        repeats.count(line.encode())
    assert any(f"/World/envs/env_{SICK}/Robot" in first for first, _ in repeats.floods())

# SPDX-License-Identifier: BSD-3-Clause
"""Faults injected into a real environment stay in the environment that has them, for one episode."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from isaaclab_pc.guards import FaultError, Guard, GuardCfg, NoStepGuard, SceneState, StepGuard

pytestmark = pytest.mark.sim

NUM_ENVS, SICK, STEPS, FAULT_STEP = 6, 2, 6, 3
BAD_VALUES = [float("nan"), float("inf"), -float("inf"), 1e30]
STATE_CAUSES = {"position", "orientation", "velocity", "joint_position", "joint_velocity"}


@pytest.fixture(scope="module")
def env(make_env: Callable):
    def adjust(cfg) -> None:
        cfg.compute_final_obs = True

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)


@dataclass
class Step:
    obs: dict[str, torch.Tensor]
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    episode: torch.Tensor
    length: torch.Tensor
    success: torch.Tensor
    final_obs: dict[str, torch.Tensor] | None


def roll_out(env, fault: Callable[[torch.Tensor], None] = lambda actions: None) -> list[Step]:
    """Step from a seeded reset with fixed actions; ``fault`` runs before step ``FAULT_STEP`` and may change them."""
    env.reset(seed=5)
    generator = torch.Generator().manual_seed(1)
    steps = []
    for index in range(STEPS):
        actions = torch.rand(NUM_ENVS, env.cfg.action_space, generator=generator) * 2 - 1
        if index == FAULT_STEP:
            fault(actions)
        env.extras.pop("final_obs", None)
        obs, reward, terminated, truncated, extras = env.step(actions)
        final = extras.get("final_obs")
        steps.append(
            Step(
                {name: value.clone() for name, value in obs.items()},
                reward.clone(),
                terminated.clone(),
                truncated.clone(),
                env.episode_index.clone(),
                env.episode_length_buf.clone(),
                env.episode_success.clone(),
                None if final is None else {name: value.clone() for name, value in final.items()},
            )
        )
    return steps


def counts(env) -> dict[str, int]:
    return {cause: int(count) for cause, count in env.guard.counts.items()}


def newly_counted(env, before: dict[str, int]) -> dict[str, int]:
    return {cause: count - before[cause] for cause, count in counts(env).items() if count != before[cause]}


Inject = Callable[[Any, pytest.MonkeyPatch, float, list[int]], Callable[[torch.Tensor], None]]


def inject_action(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        actions[sick, 1] = value

    return fault


def inject_joint_velocity(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        velocity = torch.full((len(sick), env.robot.num_joints), value)
        env.robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=torch.tensor(sick, dtype=torch.int32))

    return fault


def inject_object_velocity(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        velocity = torch.full((len(sick), 6), value)
        ids = torch.tensor(sick, dtype=torch.int32)
        env.cube.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids)

    return fault


def inject_reward(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        real = env._reward_terms

        def once() -> dict[str, torch.Tensor]:
            monkeypatch.setattr(env, "_reward_terms", real)
            terms = real()
            terms["reach"][sick] = value
            return terms

        monkeypatch.setattr(env, "_reward_terms", once)

    return fault


def inject_reading(read: Callable[[Any], torch.Tensor]) -> Inject:
    """Overwrite what the guard is about to read of the physics state."""

    def inject(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
        def fault(actions: torch.Tensor) -> None:
            real = env.scene_state.check

            def once() -> None:
                monkeypatch.setattr(env.scene_state, "check", real)
                read(env)[sick] = value
                real()

            monkeypatch.setattr(env.scene_state, "check", once)

        return fault

    return inject


INJECTIONS: dict[str, tuple[Inject, set[str]]] = {
    "action": (inject_action, {"action"}),
    "joint velocity": (inject_joint_velocity, STATE_CAUSES),
    "object velocity": (inject_object_velocity, STATE_CAUSES),
    "joint position as read": (inject_reading(lambda env: env.robot.data.joint_pos.torch[:, 3:4]), {"joint_position"}),
    "joint velocity as read": (inject_reading(lambda env: env.robot.data.joint_vel.torch[:, 8:]), {"joint_velocity"}),
    "position as read": (inject_reading(lambda env: env.cube.data.root_link_pose_w.torch[:, 2:3]), {"position"}),
    "quaternion as read": (inject_reading(lambda env: env.cube.data.root_link_pose_w.torch[:, 5:6]), {"orientation"}),
    "velocity as read": (inject_reading(lambda env: env.cube.data.root_com_vel_w.torch[:, 4:5]), {"velocity"}),
    "reward": (inject_reward, {"reward"}),
}


def is_refused(backend: str, where: str, value: float) -> bool:
    """Whether PhysX itself rejects or clamps such a write, so that nothing bad comes of it."""
    return backend == "ovphysx" and (where == "object velocity" or (where == "joint velocity" and value == 1e30))


@pytest.fixture(scope="module")
def clean(env) -> list[Step]:
    return roll_out(env)


def test_the_same_seed_gives_the_same_trajectory(env, clean: list[Step]) -> None:
    for first, second in zip(clean, roll_out(env), strict=True):
        assert torch.equal(first.reward, second.reward)
        assert all(torch.equal(value, second.obs[name]) for name, value in first.obs.items())


@pytest.mark.parametrize(
    ("value", "sick"),
    [*((value, [SICK]) for value in BAD_VALUES), (BAD_VALUES[0], [1, 4]), (BAD_VALUES[0], list(range(NUM_ENVS)))],
)
@pytest.mark.parametrize("where", INJECTIONS)
def test_a_fault_ends_its_environments_in_the_same_step_and_no_other(
    env, backend: str, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str, value: float, sick: list[int]
) -> None:
    inject, causes = INJECTIONS[where]
    before, worst = counts(env), env.guard.env_counts.clone()
    steps = roll_out(env, inject(env, monkeypatch, value, sick))
    faulty = steps[FAULT_STEP]
    if is_refused(backend, where, value):
        assert not any(step.terminated.any() for step in steps)
        assert counts(env) == before
        return
    assert faulty.terminated.tolist() == [index in sick for index in range(NUM_ENVS)]
    assert not faulty.truncated.any()
    assert not faulty.reward[sick].any()
    assert not faulty.length[sick].any(), "the environment is reset in the step of the fault"
    assert torch.equal(faulty.episode[sick], clean[FAULT_STEP].episode[sick] + 1)
    assert faulty.final_obs is not None
    for step in steps:
        for name, group in [*step.obs.items(), *(step.final_obs or {}).items()]:
            assert group.isfinite().all(), name
        assert step.reward.isfinite().all()
    assert not any(step.terminated.any() for step in steps[FAULT_STEP + 1 :]), "one reset heals"
    healthy = [index for index in range(NUM_ENVS) if index not in sick]
    for step, reference in zip(steps, clean, strict=True):
        assert torch.equal(step.reward[healthy], reference.reward[healthy])
        for name, group in step.obs.items():
            assert torch.equal(group[healthy], reference.obs[name][healthy]), name
    counted = newly_counted(env, before)
    assert set(counted) <= causes
    assert sum(counted.values()) == len(sick)
    assert (env.guard.env_counts - worst).tolist() == [int(index in sick) for index in range(NUM_ENVS)]


@pytest.mark.parametrize("where", ["action", "reward"])
def test_denormals_are_no_fault(env, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    before = counts(env)
    steps = roll_out(env, INJECTIONS[where][0](env, monkeypatch, 1e-42, [SICK]))
    assert not any(step.terminated.any() for step in steps)
    assert counts(env) == before


def inject_observation(group: str) -> Inject:
    def inject(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
        real = env._observe

        def fault(actions: torch.Tensor) -> None:
            def once() -> dict[str, torch.Tensor]:
                monkeypatch.setattr(env, "_observe", real)
                observation = real()
                observation[group].view(NUM_ENVS, -1)[sick, -1] = value
                return observation

            monkeypatch.setattr(env, "_observe", once)

        return fault

    return inject


@pytest.mark.parametrize("value", BAD_VALUES)
@pytest.mark.parametrize("group", ["policy", "points", "critic"])
def test_a_bad_observation_is_filled_and_its_environment_reset_before_the_next_physics_step(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch, group: str, value: float
) -> None:
    before = counts(env)
    steps = roll_out(env, inject_observation(group)(env, monkeypatch, value, [SICK]))
    assert_ended_by_its_observation(steps, clean)
    assert newly_counted(env, before) == {"observation": 1}


def test_an_episode_that_ended_by_itself_stays_as_it_ended_if_the_next_one_begins_badly(
    env, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the first observation of this step would be the last one of the episode that ended.
    monkeypatch.setattr(env.cfg, "compute_final_obs", False)
    spoil = inject_observation("points")(env, monkeypatch, float("nan"), [SICK])

    def time_out(actions: torch.Tensor) -> None:
        env.episode_length_buf[SICK] = env.max_episode_length

    def time_out_and_spoil(actions: torch.Tensor) -> None:
        time_out(actions)
        spoil(actions)

    expected = roll_out(env, time_out)[FAULT_STEP]
    steps = roll_out(env, time_out_and_spoil)
    ended = steps[FAULT_STEP]
    assert ended.truncated[SICK]
    assert not ended.terminated.any()
    assert torch.equal(ended.reward, expected.reward)
    assert not ended.obs["points"][SICK].any()
    assert steps[FAULT_STEP + 1].episode[SICK] == ended.episode[SICK] + 1, "it is reset before the next step"


def assert_ended_by_its_observation(steps: list[Step], clean: list[Step]) -> None:
    faulty, after = steps[FAULT_STEP], steps[FAULT_STEP + 1]
    assert faulty.terminated.tolist() == [index == SICK for index in range(NUM_ENVS)]
    assert faulty.reward[SICK] == 0.0
    assert not any(value[SICK].any() for value in faulty.obs.values()), "fill values are zeros"
    assert after.episode[SICK] == faulty.episode[SICK] + 1
    assert after.length[SICK] == 1
    assert not after.terminated.any()
    healthy = [index for index in range(NUM_ENVS) if index != SICK]
    for step, reference in zip(steps, clean, strict=True):
        assert all(value.isfinite().all() for value in step.obs.values())
        assert torch.equal(step.reward[healthy], reference.reward[healthy])


@pytest.mark.parametrize("value", [float("nan"), -float("inf"), -1.0, 1e30])
def test_a_broken_image_ends_its_environment_which_is_reset_before_the_next_physics_step(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    camera = type(env.camera)
    real = camera.data.fget
    state = {"armed": False}

    def corrupted(self):
        data = real(self)
        if state["armed"]:
            data.output["depth"].torch[SICK, 3, 4] = value
        return data

    monkeypatch.setattr(camera, "data", property(corrupted))
    real_step = env.step

    def fault(actions: torch.Tensor) -> None:
        def once(action: torch.Tensor):
            state["armed"] = True
            env.episode_success[SICK] = True  # an earlier episode's
            monkeypatch.setattr(env, "step", real_step)
            result = real_step(action)
            state["armed"] = False
            return result

        monkeypatch.setattr(env, "step", once)

    before = counts(env)
    steps = roll_out(env, fault)
    assert_ended_by_its_observation(steps, clean)
    assert not steps[FAULT_STEP].success[SICK], "a broken episode is no success"
    assert newly_counted(env, before) == {"depth": 1}


def test_infinite_depth_is_a_miss_and_no_fault(env, clean: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    camera = type(env.camera)
    real = camera.data.fget

    def no_hits(self):
        data = real(self)
        data.output["depth"].torch[SICK] = float("inf")
        return data

    monkeypatch.setattr(camera, "data", property(no_hits))
    steps = roll_out(env)
    assert not any(step.terminated.any() for step in steps)
    assert all(not step.obs["points"][SICK].any() for step in steps), "an empty cloud is zeros"


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


def test_a_healed_environment_goes_on_as_after_any_other_reset(env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever solver, actuators and buffers keep between steps holds nothing of the fault."""

    def time_out(actions: torch.Tensor) -> None:
        env.episode_length_buf[SICK] = env.max_episode_length

    reference = roll_out(env, time_out)
    fault = inject_joint_velocity(env, monkeypatch, float("nan"), [SICK])
    healed = roll_out(env, fault)
    assert reference[FAULT_STEP].truncated[SICK]
    assert healed[FAULT_STEP].terminated[SICK]
    for step, expected in zip(healed[FAULT_STEP:], reference[FAULT_STEP:], strict=True):
        assert all(torch.equal(value, expected.obs[name]) for name, value in step.obs.items())


@pytest.mark.parametrize("where", INJECTIONS)
def test_sanitize_replaces_bad_values_and_ends_no_episode(
    env, backend: str, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    guard = use_guard(env, monkeypatch, mode="sanitize")
    inject, causes = INJECTIONS[where]
    steps = roll_out(env, inject(env, monkeypatch, float("nan"), [SICK]))
    counted = {cause for cause, count in guard.counts.items() if count > 0}
    if not is_refused(backend, where, float("nan")):
        assert counted
        assert counted <= causes
    healthy = [index for index in range(NUM_ENVS) if index != SICK]
    for step, reference in zip(steps, clean, strict=True):
        assert not step.terminated.any()
        assert step.reward.isfinite().all()
        for name, group in step.obs.items():
            assert group.isfinite().all(), name
            assert torch.equal(group[healthy], reference.obs[name][healthy]), name
    assert env.robot.data.joint_pos.torch.isfinite().all()
    assert env.cube.data.root_link_pose_w.torch.isfinite().all()


@pytest.mark.parametrize(
    ("where", "tensor"),
    [("action", "actions"), ("joint velocity as read", "robot"), ("position as read", "cube"), ("reward", "reward")],
)
def test_raise_stops_and_names_the_tensor(env, monkeypatch: pytest.MonkeyPatch, where: str, tensor: str) -> None:
    use_guard(env, monkeypatch, mode="raise")
    inject, causes = INJECTIONS[where]
    with pytest.raises(FaultError, match=rf"Lift: bad values in {tensor} .*\({SICK}\) at step {FAULT_STEP + 1}") as one:
        roll_out(env, inject(env, monkeypatch, float("nan"), [SICK]))
    assert set(one.value.causes) <= causes


def test_truncated_is_the_other_way_to_end(env, monkeypatch: pytest.MonkeyPatch) -> None:
    use_guard(env, monkeypatch, ends="truncated")
    faulty = roll_out(env, inject_reward(env, monkeypatch, float("nan"), [SICK]))[FAULT_STEP]
    assert not faulty.terminated.any()
    assert faulty.truncated.tolist() == [index == SICK for index in range(NUM_ENVS)]


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
    for step, reference in zip(roll_out(env), clean, strict=True):
        assert torch.equal(step.reward, reference.reward)
        assert all(torch.equal(value, reference.obs[name]) for name, value in step.obs.items())


def test_an_environment_that_fails_again_and_again_is_benched(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = use_guard(env, monkeypatch, bench_after=1)
    real = env.scene_state.check

    def always() -> None:
        env.robot.data.joint_vel.torch[SICK] = float("nan")
        real()

    monkeypatch.setattr(env.scene_state, "check", always)
    steps = roll_out(env)
    assert [bool(step.terminated[SICK]) for step in steps] == [True, True, False, False, False, False]
    assert int(guard.counts["joint_velocity"]) == 2
    assert guard.benched.tolist() == [index == SICK for index in range(NUM_ENVS)]
    assert float(env.extras["log"]["Guard/benched"]) == 1.0
    default = env.robot.data.default_joint_pos.torch[SICK]
    assert (env.robot.data.joint_pos.torch[SICK, :7] - default[:7]).abs().max() < 0.1
    healthy = [index for index in range(NUM_ENVS) if index != SICK]
    for index, (step, reference) in enumerate(zip(steps, clean, strict=True)):
        assert step.reward[SICK] == 0.0
        assert torch.equal(step.reward[healthy], reference.reward[healthy])
        for name, group in step.obs.items():
            assert group.isfinite().all()
            assert index < 2 or not group[SICK].any()
            assert torch.equal(group[healthy], reference.obs[name][healthy])

# SPDX-License-Identifier: BSD-3-Clause
"""A real failure is recorded, and running its history again finds the same one."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.faults.replay_result import Reading
from isaaclab_pc.faults.replay_state import History
from isaaclab_pc.viewer.live_view import LiveView
from isaaclab_pc.workers.replay import make_look, repeat_steps

pytestmark = pytest.mark.sim

KICK_STEP = 6
KICK = 400.0
"""Upward speed of the cube after the kick: above the guard's bound [m/s]."""
CUBE_RADIUS = 0.035
"""From its centre to a corner [m]."""


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Lift-Cube-Franka-Direct", 1, drawn=True)


@pytest.fixture(scope="module")
def dump(env, tmp_path_factory: pytest.TempPathFactory) -> FaultDump:
    """The arm moves at random, then the cube is shot up, as by a bad contact, before a step's physics."""
    folder = tmp_path_factory.mktemp("dumps")
    recorder = Recorder.attach(env, folder, {"task": "lift", "config": {}, "backend": "this"})
    env.reset(seed=3)
    generator = torch.Generator().manual_seed(0)
    for step in range(KICK_STEP + 2):
        if step == KICK_STEP:
            velocity = torch.tensor([[0.0, 0.0, KICK, 0.0, 0.0, 0.0]])
            env.cube.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=torch.tensor([0]).int())
        env.step(torch.rand(1, env.cfg.action_space, generator=generator) * 2 - 1)
    (path,) = recorder.paths
    return FaultDump.load(path)


def test_the_history_ends_with_the_failure(dump: FaultDump) -> None:
    assert dump.arrays["length"].tolist() == [KICK_STEP + 1]
    assert dump.arrays["episode_step"][0].tolist() == list(range(KICK_STEP + 1))
    assert "velocity" in dump.causes_of(0)
    assert dump.arrays["after.cube.root_velocity"][0, 2] > 200.0


def test_a_replay_follows_the_recording_and_finds_the_first_bad_physics_step(env, dump: FaultDump) -> None:
    """The kick is no action, so only the replay that begins every step in its recorded state sees it."""
    history = History(env, dump, 0)
    through = repeat_steps(env, history, from_each_step=False)
    assert through.fault is None
    assert max(through.differences[: KICK_STEP - 1]) < 1e-3
    found = repeat_steps(env, history, from_each_step=True)
    assert max(found.differences) < 1e-3
    fault = found.fault
    assert fault is not None
    assert (fault.step, fault.substep) == (KICK_STEP, 1)
    first = fault.offenders[0]
    assert (first.asset, first.quantity) == ("cube", "velocity [m/s]")
    assert first.value == pytest.approx(KICK, rel=0.05)
    assert first.bound == 200.0
    assert len(fault.trace) > 0
    assert all(abs(value) < 10.0 for value in fault.trace)


def test_who_watches_sees_the_body_that_fails_with_its_cloud_and_its_values(env, dump: FaultDump, monkeypatch) -> None:
    from isaaclab_pc.viewer.scene_reader import SceneReader

    frames: list = []
    cubes: list = []

    def show(frame) -> None:
        frames.append(frame)
        cubes.append((env.cube_pos + env.scene.env_origins)[0].numpy().copy())

    monkeypatch.setattr(env, "live_view", LiveView(env, show, SceneReader(env)), raising=False)
    history = History(env, dump, 0)
    fault = repeat_steps(env, history, from_each_step=True).fault
    assert repeat_steps(env, history, True, make_look(env, fault)).fault == fault

    last = frames[-1]
    assert [frame.step * env.cfg.decimation for frame in frames] == [*range(1, len(frames) + 1)]
    assert last.step == pytest.approx(KICK_STEP + 1 / env.cfg.decimation)
    assert len(last.part_poses) > 5
    for frame, cube in list(zip(frames, cubes, strict=True))[:-1]:
        to_cube = np.linalg.norm(frame.cloud[0] - cube, axis=-1)
        assert to_cube.min() < CUBE_RADIUS, "its cloud is that of the physics step"
        assert (frame.cameras[0].depth > 0.0).any()
    position, text = last.mark
    assert position == pytest.approx((env.cube_pos + env.scene.env_origins)[0].numpy(), abs=1e-3)
    assert last.watched == {"velocity [m/s]": pytest.approx(KICK, rel=0.05), "bound": 200.0}
    assert text.endswith(", bound 200")
    assert abs(frames[0].watched["velocity [m/s]"]) < 10.0

    # A joint is marked at the body that it moves.
    reading = Reading("robot", "panda_joint4", "joint velocity [rad/s]", value=9.0, bound=5.0, excess=2.0)
    joint = SceneReader(env).after_physics_step(0.0, reading, 9.0).mark
    body = env.robot.data.body_link_pos_w.torch[0, env.robot.body_names.index("panda_link4")]
    assert joint is not None
    assert joint[0] == pytest.approx(body.numpy(), abs=1e-3)


def test_a_bad_action_is_found_before_the_physics(env, dump: FaultDump) -> None:
    arrays = {name: value.copy() for name, value in dump.arrays.items()}
    arrays["action"][0, 2, 1] = float("nan")
    history = History(env, FaultDump(dump.about, arrays), 0)
    fault = repeat_steps(env, history, from_each_step=False).fault
    assert fault is not None
    assert (fault.step, fault.substep) == (2, 0)
    assert (fault.offenders[0].quantity, fault.offenders[0].name) == ("action", "component 1")


def test_a_history_of_other_joints_is_refused(env, dump: FaultDump) -> None:
    assets = {**dump.about["assets"], "robot": {"kind": "articulation", "joints": ["a"]}}
    with pytest.raises(ConfigError, match="robot differs"):
        History(env, FaultDump({**dump.about, "assets": assets}, dump.arrays), 0)

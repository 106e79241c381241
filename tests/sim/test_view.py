# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/view.py shows of real environments, compared with the simulation."""

import math

import numpy as np
import pytest
import torch
from isaaclab.utils.math import quat_apply

from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.guards.step_hooks import add_step_hook
from isaaclab_pc.viewer import live_view
from isaaclab_pc.viewer.arm_drive import arm_drive
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.film_recorder import FilmRecorder
from isaaclab_pc.viewer.live_view import LiveView
from isaaclab_pc.viewer.scene_pictures import PictureView, add_picture_camera, read_pictures
from isaaclab_pc.viewer.scene_reader import SceneReader
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.view import Watch

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

TASK = "IsaacPC-Lift-Cube-Franka-Direct"
STEPS = 3
VIEW = PictureView(eye=(1.6, 1.2, 1.0), target=(0.4, 0.0, 0.2), width=128, height=96, fov_deg=30.0)
FAULTY_STEP = 2
"""The step, counted from 1, in which the policy gives environment 1 an action that is not finite."""


@pytest.fixture(scope="module")
def env(make_env):
    return make_env(TASK, 2, lambda cfg: add_picture_camera(cfg, VIEW), drawn=True)


@pytest.fixture(scope="module")
def watched(env, tmp_path_factory):
    """The frames of a reset and a few steps, and the observations that the policy got."""
    expert = env.expert()
    seen = []

    def act(observations):
        seen.append({name: value.clone() for name, value in observations.items()})
        seen[-1]["tool_pos"] = env.tool_pos + env.scene.env_origins
        seen[-1]["tool_quat"] = env.tool_quat.clone()
        actions = expert()
        if len(seen) == FAULTY_STEP:
            actions[1] = math.nan
        return actions

    controls = Controls()
    controls.speed = math.inf
    controls.run_to_fault()
    dumps = tmp_path_factory.mktemp("view") / "dumps"
    recorder = Recorder.attach(env, dumps, {"task": TASK, "config": {}, "backend": "test"})
    watch = Watch(env, act, controls, recorder)
    frames = []
    messages = []

    def idle():
        # Nobody is there to press a button.
        messages.append(controls.message)
        controls.run()

    watch.run(frames.append, seed=3, steps=STEPS, idle=idle)
    return watch.reader.layout, frames, seen, messages


def test_the_points_are_the_observations_moved_into_the_world(watched):
    _, frames, seen, _ = watched
    assert [frame.step for frame in frames] == [*range(STEPS + 1)]
    for frame, observed in zip(frames, seen, strict=False):
        points = observed["points"].float()
        quat = observed["tool_quat"][:, None].expand(-1, points.shape[1], -1)
        expected = quat_apply(quat, points) + observed["tool_pos"][:, None]
        assert np.allclose(frame.cloud, expected, atol=1e-4)


def test_the_points_lie_on_the_cube_which_is_drawn_where_it_is(watched, env):
    layout, frames, _, _ = watched
    last = frames[-1]
    cube = (env.cube_pos + env.scene.env_origins).numpy()
    assert np.linalg.norm(last.cloud - cube[:, None], axis=-1).max() < 0.05

    centers = np.vstack([poses[:, :3] for poses in last.part_poses])
    assert all(np.linalg.norm(centers - position, axis=1).min() < 1e-4 for position in cube)
    hand = env.robot.data.body_link_pos_w.torch[:, env.robot.body_names.index("panda_hand")].numpy()
    assert all(np.linalg.norm(centers - position, axis=1).min() < 0.1 for position in hand)
    assert len(layout.parts) == len(last.part_poses) > 5


def test_cameras_crop_boxes_rewards_and_success_are_those_of_the_step(watched, env):
    layout, frames, _, _ = watched
    camera = frames[0].cameras[0]
    assert np.allclose(camera.poses[:, :3], env.camera.data.pos_w.torch.numpy())
    height, width = env.camera.image_shape
    assert camera.depth.shape == (2, height, width)
    assert (camera.depth > 0.0).any()
    assert np.allclose(frames[0].crop_poses[:, :3], layout.origins)

    reset, first, *_ = frames
    assert "reach" in first.reward_terms
    assert math.isclose(sum(terms[0] for terms in first.reward_terms.values()), first.reward[0], abs_tol=1e-5)
    assert first.success.shape == (2,)
    assert (reset.reward, reset.actions, reset.success) == (None, None, None)


def test_a_fault_is_named_stops_who_runs_to_it_and_says_how_to_replay_it(watched):
    _, frames, _, messages = watched
    assert frames[FAULTY_STEP].faults == ((), ("action",))
    assert frames[FAULTY_STEP].done.tolist() == [False, True]
    assert "env 1: action" in messages[0]
    assert "replay.py dump=" in messages[0]


def test_a_person_moves_the_tool_of_one_environment_and_the_other_holds_still(env):
    drive = arm_drive(env)
    drive.env = 1
    names = [motion.name for motion in drive.motions]
    env.reset(seed=3)
    before = env.tool_pos.clone()
    fingers = env.robot.data.joint_pos.torch[:, env.arm.fingers].clone()

    drive.values[names.index("y")] = 1.0
    drive.press(names.index("gripper"), -1.0)
    with torch.no_grad():
        # The hand turns to where it is held first.
        for _ in range(20):
            env.step(drive.next_actions(2, env.device))

    moved = env.tool_pos - before
    assert moved[1, 1] > 0.1
    assert moved[1, [0, 2]].abs().max() < 0.03
    assert moved[0].norm() < 0.02
    closing = fingers - env.robot.data.joint_pos.torch[:, env.arm.fingers]
    assert (closing[1] > 0.02).all()
    assert (closing[0].abs() < 0.002).all()


def test_a_film_shows_the_scene_and_what_the_policy_sees_in_every_step(env, tmp_path):
    av = pytest.importorskip("av", reason="needs av: uv pip install -c constraints.txt -e '.[viz]'")
    from isaaclab_pc.viewer.mp4_recording import Mp4Recording

    path = tmp_path / "out.mp4"
    expert = env.expert()
    controls = Controls()
    controls.speed = math.inf
    watch = Watch(env, lambda _: expert(), controls)
    recording = Mp4Recording(path, watch.reader.layout, VIEW, lambda: read_pictures(env))
    watch.run(recording.write, seed=3, steps=STEPS)
    recording.close()

    with av.open(path) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
        assert float(film.streams.video[0].average_rate) == pytest.approx(1.0 / env.step_dt)
    assert len(frames) == STEPS + 1, "the reset is shown, too"
    panels = 2 * VIEW.width + 128
    assert frames[0].shape == (2 * VIEW.height, panels, 3)
    now = read_pictures(env)[1].astype(float)
    shown = frames[-1][VIEW.height :, : VIEW.width].astype(float)
    assert np.abs(now - shown)[20:].mean() < 5.0
    assert now.std() > 20.0, "there is something to see"
    # Only the points have strong colours where the scene is faded.
    cloud = frames[-1][VIEW.height :, VIEW.width : 2 * VIEW.width].astype(int)
    assert (np.ptp(cloud[20:], axis=-1) > 100).any()


def test_an_environment_that_is_hidden_by_the_guard_draws_what_the_policy_gets(env):
    reader = SceneReader(env)
    observations, _ = env.reset(seed=3)
    observations["points"][1] = 0.0
    frame = reader.after_reset(observations)
    assert frame.cloud is not None
    tool = (env.tool_pos + env.scene.env_origins)[1]
    assert torch.allclose(torch.as_tensor(frame.cloud[1]), tool.expand(len(frame.cloud[1]), 3), atol=1e-5)


def test_an_evaluation_films_what_the_policy_saw(env, monkeypatch):
    monkeypatch.setattr(env.cfg, "episode_length_s", 10 * env.step_dt)
    expert = env.expert()
    clouds = []

    def act(observations):
        clouds.append(SceneReader(env).after_reset(observations).cloud - env.scene.env_origins[:, None].numpy())
        return expert()

    recorder = FilmRecorder(env, iteration=7)
    evaluate(env, act, 2, seed=5, recorder=recorder)

    (film,) = recorder.films.values()
    assert film.times == pytest.approx([step * env.step_dt for step in (0, 1, 2, 4, 5, 7, 8, 9)])
    assert film.points is not None
    assert film.points[0] == pytest.approx(clouds[0][0], abs=1e-3)
    assert film.points[-1] == pytest.approx(clouds[9][0], abs=1e-3)
    assert np.abs(film.points - env.cube_pos[0].numpy()).max() < 0.3


def test_beside_a_run_the_same_scene_is_shown_of_its_steps(env, monkeypatch):
    monkeypatch.setattr(live_view, "PERIOD", 0.0)
    frames = []
    reader = SceneReader(env)
    remove = add_step_hook(env, LiveView(env, frames.append, reader))
    observations, _ = env.reset(seed=4)
    actions = torch.zeros(2, env.cfg.action_space)
    with torch.inference_mode():
        result = env.step(actions)
        monkeypatch.setattr(live_view, "PERIOD", 60.0)
        for _ in range(3):
            env.step(actions)
    remove()
    assert [frame.step for frame in frames] == [1, 2], "the others come too soon after each other"
    assert frames[0].reward == pytest.approx(result[1].numpy())
    assert frames[0].actions.shape == (2, env.cfg.action_space)
    assert frames[0].cloud.shape == (2, *observations["points"].shape[1:])

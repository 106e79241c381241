# SPDX-License-Identifier: BSD-3-Clause
"""Which episodes of an evaluation are kept, and which frames of them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from isaaclab_pc.viewer.film_recorder import _MAX_POINTS, FilmRecorder, film_of_now, sees_pictures
from isaaclab_pc.workers.evaluation import evaluate
from tests.unit.workers.fake_env import FakeEnv


class SeenEnv(FakeEnv):
    """Environment i stands at 10 i on the y axis; points lie at (step, i, 0) in a frame that is half a turn about z."""

    step_dt = 0.1

    def __init__(self, lengths, succeeds, points=4, obs="points"):
        super().__init__(lengths, succeeds)
        self.max_episode_length = max(lengths)
        self.cfg = SimpleNamespace(obs=obs, history_length=1)
        self.scene = SimpleNamespace(env_origins=torch.tensor([[0.0, 10.0 * i, 0.0] for i in range(self.num_envs)]))
        self.tool_pos = torch.full((self.num_envs, 3), 0.25)
        self.tool_quat = torch.tensor([[1.0, 0.0, 0.0, 0.0]] * self.num_envs)
        half_turn = torch.tensor([[0.0, 0.0, 1.0, 0.0]] * self.num_envs)
        self.point_cloud = SimpleNamespace(
            cfg=SimpleNamespace(frame="robot"), frame_pose=lambda frame: (self.scene.env_origins, half_turn)
        )
        self._points = points

    def _goal(self):
        return None

    @property
    def episode_length_buf(self):
        return self.step_in_episode

    def _observe(self):
        points = torch.zeros(self.num_envs, self._points, 4)
        points[..., 0] = self.step_in_episode[:, None].float()
        points[..., 1] = torch.arange(self.num_envs)[:, None].float()
        depth = self.step_in_episode[:, None, None, None].float().expand(-1, 1, 96, 128)
        self.obs_buf = {"policy": torch.zeros(self.num_envs, 1), "points": points, "depth": depth}
        return self.obs_buf

    def reset(self, seed=None):
        return self._observe() if super().reset(seed) else {}, {}

    def step(self, actions):
        _, *others = super().step(actions)
        return self._observe(), *others


def act(observations):
    return observations["policy"]


def film(env, episodes=8):
    recorder = FilmRecorder(env, iteration=5)
    evaluate(env, act, episodes, seed=3, recorder=recorder)
    return recorder.films


def test_one_that_succeeded_and_one_that_failed_are_kept_with_their_first_and_last_frames():
    films = film(SeenEnv([50, 50, 20], [True, True, False]))
    success, failure = films["success"], films["failure"]
    assert success.points is not None
    assert failure.points is not None
    assert len(success.times) == 8
    assert success.times[[0, -1]] == pytest.approx([0.0, 4.9])
    assert failure.times == pytest.approx([0.0, 0.7, 1.4, 1.9])
    # Turned by half, in the environment's own frame.
    assert failure.points[-1] == pytest.approx(np.tile([-19.0, -2.0, 0.0], (4, 1)), abs=1e-2)
    assert success.points[1] == pytest.approx(np.tile([-7.0, 0.0, 0.0], (4, 1)), abs=1e-2)
    assert (success.iteration, failure.tool[0, 0], failure.goal) == (5, 0.25, None)


def test_an_episode_that_is_not_counted_is_not_kept():
    # The second environment has its one episode, and fails after that while the first still runs.
    env = SeenEnv([9, 3], [True, True])
    recorder = FilmRecorder(env, iteration=0)
    env.reset()
    recorder.before_step(env.obs_buf)
    env.episode_success[:] = False
    recorder.after_step(torch.tensor([False, True]), torch.tensor([False, False]))
    assert recorder.films == {}


def test_large_clouds_and_images_are_thinned_out():
    films = film(SeenEnv([3], [True], points=5 * _MAX_POINTS + 1), 1)
    assert list(films) == ["success"], "none failed"
    clouds = films["success"].points
    assert clouds is not None
    assert clouds.shape == (3, 427, 3)
    images = film(SeenEnv([3], [True], obs="depth"), 1)["success"].depth
    assert images is not None
    assert images.shape == (3, 48, 64)
    assert images[:, 0, 0].tolist() == [0.0, 1.0, 2.0]


def test_what_was_seen_last_is_a_film_of_one_frame():
    env = SeenEnv([5], [True])
    assert film_of_now(env, 1) is None
    env.reset()
    env.step(torch.zeros(1, 1))
    now = film_of_now(env, 1)
    assert now is not None
    assert now.points is not None
    assert now.times == pytest.approx([0.1])
    assert math.isclose(now.points[0, 0, 0], -1.0, abs_tol=1e-3)


def test_only_tasks_of_this_package_that_see_pictures_are_recorded():
    assert sees_pictures(SeenEnv([1], [True]))
    assert not sees_pictures(SeenEnv([1], [True], obs="state"))
    assert not sees_pictures(SimpleNamespace(cfg=SimpleNamespace()))

# SPDX-License-Identifier: BSD-3-Clause
"""Several clouds, depth images, cameras and features of points reach the action, through each library's network."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import gymnasium as gym
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from isaaclab_pc.agents import ppo
from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.features import camera_of
from isaaclab_pc.sensors.point_cloud_cfg import FEATURES
from isaaclab_pc.settings.points import PointEncoder

CHANNELS = {"rgb": 3, "normals": 3, "segmentation": 1, "one_hot": 2, "camera": 1}
"""Values that each feature of a point adds after x, y, z."""

ACTOR = {
    "policy": (5,),
    "points": (12, 3 + sum(CHANNELS.values())),
    "wrist": (9, 3),
    "depth": (1, 16, 16),
    "wrist_depth": (1, 18, 20),
}
CRITIC = {"critic": (7,)}
Shapes = Mapping[str, tuple[int, ...]]
Policy = Callable[[Mapping[str, Tensor]], Tensor]


def settings(kind: Any, actor: Shapes) -> dict[str, Any]:
    encoder = ppo.EncoderSettings(point_encoder=kind, point_channels=(8, 16), depth_channels=(4,), depth_latent=8)
    return {
        "actor": list(actor),
        "critic": list(CRITIC),
        "encoder": encoder.to_dict(),
        "actor_hidden": [16],
        "critic_hidden": [8],
        "activation": "elu",
    }


def space(shapes: Shapes) -> gym.spaces.Dict:
    return gym.spaces.Dict({name: gym.spaces.Box(-1.0, 1.0, shape) for name, shape in shapes.items()})


def rsl_rl(kind: str, actor: Shapes, memory: str | None = None) -> Policy:
    pytest.importorskip("rsl_rl")
    from isaaclab_pc.learners.rsl_rl.model import PointCloudModel

    like = TensorDict({name: torch.zeros(1, *shape) for name, shape in actor.items()}, batch_size=[1])
    encoder = settings(kind, actor)["encoder"]
    model = PointCloudModel(
        like, {"actor": list(actor)}, "actor", 3, encoder=encoder, hidden_dims=[16], rnn_type=memory, rnn_hidden_dim=8
    )

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        model.reset()
        return model(TensorDict(dict(obs), batch_size=[len(obs["policy"])]))

    return act


def rl_games(kind: str, actor: Shapes, memory: str | None = None) -> Policy:
    pytest.importorskip("rl_games")
    from isaaclab_pc.learners.rl_games.network import PointCloudNetwork

    network = PointCloudNetwork(
        {**actor, **CRITIC}, 3, rnn_type=memory, rnn_hidden_dim=8, init_std=1.0, aux_coef=0.0, **settings(kind, actor)
    )

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        network.reset()
        return network.policy(obs)

    return act


def skrl(kind: str, actor: Shapes) -> Policy:
    pytest.importorskip("skrl")
    from isaaclab_pc.learners.skrl.model import PointCloudModel

    model = PointCloudModel(
        observation_space=space(actor),
        state_space=space(CRITIC),
        action_space=gym.spaces.Box(-1.0, 1.0, (3,)),
        device="cpu",
        init_std=1.0,
        aux_coef=0.0,
        **settings(kind, actor),
    )
    return model.policy


def sb3(kind: str, actor: Shapes) -> Policy:
    pytest.importorskip("stable_baselines3")
    from isaaclab_pc.learners.sb3.policy import PointCloudPolicy

    network: Any = {"init_std": 1.0, "aux_coef": 0.0, **settings(kind, actor)}
    actions = gym.spaces.Box(-1.0, 1.0, (3,))
    model = PointCloudPolicy(space({**actor, **CRITIC}), actions, lambda left: 1e-3, net_arch=network)
    return lambda obs: model.get_distribution(obs).mode()


LIBRARIES: dict[str, Callable[[str, Shapes], Policy]] = {
    "rsl_rl": rsl_rl,
    "rsl_rl, gru": partial(rsl_rl, memory="gru"),
    "rsl_rl, lstm": partial(rsl_rl, memory="lstm"),
    "rl_games": rl_games,
    "rl_games, gru": partial(rl_games, memory="gru"),
    "rl_games, lstm": partial(rl_games, memory="lstm"),
    "skrl": skrl,
    "sb3": sb3,
}
every_library = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES.keys())


def observe(actor: Shapes) -> dict[str, Tensor]:
    return {name: torch.rand(2, *shape) for name, shape in {**actor, **CRITIC}.items()}


@pytest.mark.parametrize("kind", get_args(PointEncoder))
@every_library
def test_every_input_of_the_policy_changes_its_action_and_the_order_of_points_does_not(
    make: Callable[[str, Shapes], Policy], kind: str
) -> None:
    assert CHANNELS.keys() == set(FEATURES)
    torch.manual_seed(0)
    policy = make(kind, ACTOR)
    obs = observe(ACTOR)
    with torch.no_grad():
        action = policy(obs)
        for name in ACTOR:
            changed = {**obs, name: torch.rand_like(obs[name])}
            assert not torch.allclose(policy(changed), action), name
        torch.testing.assert_close(policy({**obs, "critic": torch.rand(2, 7)}), action)

        first = 0
        for feature, size in {"x": 1, "y": 1, "z": 1, **CHANNELS}.items():
            points = obs["points"].clone()
            points[..., first : first + size] = torch.rand_like(points[..., first : first + size])
            assert not torch.allclose(policy({**obs, "points": points}), action), feature
            first += size

        for name in ("points", "wrist"):
            shuffled = obs[name][:, torch.randperm(obs[name].shape[1])]
            torch.testing.assert_close(policy({**obs, name: shuffled}), action)


@pytest.mark.parametrize("kind", get_args(PointEncoder))
@every_library
def test_the_frames_of_a_history_are_told_apart(make: Callable[[str, Shapes], Policy], kind: str) -> None:
    torch.manual_seed(0)
    actor = {"policy": (10,), "points": (3, 12, 4), "depth": (2, 1, 16, 16)}
    policy = make(kind, actor)
    obs = observe(actor)
    with torch.no_grad():
        action = policy(obs)
        for name in ("points", "depth"):
            for frame in range(actor[name][0]):
                changed = obs[name].clone()
                changed[:, frame] = torch.rand_like(changed[:, frame])
                assert not torch.allclose(policy({**obs, name: changed}), action), (name, frame)
            assert not torch.allclose(policy({**obs, name: obs[name].flip(1)}), action), name
        torch.testing.assert_close(policy({**obs, "points": obs["points"].flip(2)}), action)


@every_library
def test_what_a_second_camera_sees_changes_the_action(make: Callable[[str, Shapes], Policy]) -> None:
    torch.manual_seed(0)
    sizes = [(9, 12), (8, 8)]
    cloud = DepthToCloud(1, sizes, 40, device="cpu", dtype="float32", crop_lower=(-9, -9, -9), crop_upper=(9, 9, 9))
    pinhole = torch.tensor([[8.0, 0.0, 4.0], [0.0, 8.0, 4.0], [0.0, 0.0, 1.0]]).expand(1, 2, 3, 3)
    places = torch.tensor([[[0.0, 0.0, 0.0], [0.3, 0.0, 0.0]]])
    turns = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(1, 2, 4)

    def fuse(depths: list[Tensor]) -> Tensor:
        seen = cloud(depths, pinhole, places, turns, torch.zeros(1, dtype=torch.int32))
        return torch.cat([seen.points, camera_of(sizes, seen.pixels)[..., None]], dim=-1)

    depths = [torch.rand(1, *size) + 0.5 for size in sizes]
    actor = {"policy": (5,), "points": (40, 4)}
    policy = make("pointnet", actor)
    obs = {**observe(actor), "policy": torch.rand(1, 5), "critic": torch.rand(1, 7), "points": fuse(depths)}
    closer = {**obs, "points": fuse([depths[0], 0.5 * depths[1]])}
    with torch.no_grad():
        assert not torch.allclose(policy(closer), policy(obs))

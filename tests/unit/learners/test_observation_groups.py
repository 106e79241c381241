# SPDX-License-Identifier: BSD-3-Clause
"""Several clouds, depth images, cameras and features of points reach the action, through each kind of network."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners.rl_games.network import PointCloudNetwork
from isaaclab_pc.learners.rsl_rl.model import PointCloudModel
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


def encoder_settings(kind: Any) -> dict[str, Any]:
    encoder = ppo.EncoderSettings(point_encoder=kind, point_channels=(8, 16), depth_channels=(4,), depth_latent=8)
    return encoder.to_dict()


def rsl_rl(kind: str, actor: Shapes, memory: str | None = None) -> Policy:
    like = TensorDict({name: torch.zeros(1, *shape) for name, shape in actor.items()}, batch_size=[1])
    sizes: dict[str, Any] = {"hidden_dims": [16], "rnn_type": memory, "rnn_hidden_dim": 8}
    model = PointCloudModel(like, {"actor": list(actor)}, "actor", 3, encoder=encoder_settings(kind), **sizes)

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        model.reset()
        return model(TensorDict(dict(obs), batch_size=[len(obs["policy"])]))

    return act


def rl_games(kind: str, actor: Shapes, memory: str | None = None) -> Policy:
    network = PointCloudNetwork(
        {**actor, **CRITIC},
        3,
        rnn_type=memory,
        rnn_hidden_dim=8,
        actor=list(actor),
        critic=list(CRITIC),
        encoder=encoder_settings(kind),
        actor_hidden=[16],
        critic_hidden=[8],
        activation="elu",
        init_std=1.0,
        aux_coef=0.0,
    )

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        network.reset()
        return network.policy(obs)

    return act


NETWORKS: dict[str, Callable[[str, Shapes], Policy]] = {
    "rsl_rl": rsl_rl,
    "rsl_rl, gru": partial(rsl_rl, memory="gru"),
    # That of skrl and Stable-Baselines3, too.
    "rl_games": rl_games,
    "rl_games, lstm": partial(rl_games, memory="lstm"),
}
every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())


def observe(actor: Shapes) -> dict[str, Tensor]:
    return {name: torch.rand(2, *shape) for name, shape in {**actor, **CRITIC}.items()}


@pytest.mark.parametrize("kind", get_args(PointEncoder))
@every_network
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
@every_network
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

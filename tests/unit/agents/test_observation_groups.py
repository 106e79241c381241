# SPDX-License-Identifier: BSD-3-Clause
"""Several clouds, cameras and features of points reach the action, through each library's network."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

import gymnasium as gym
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from isaaclab_pc.agents import ppo
from isaaclab_pc.settings.points import PointEncoder

ACTOR = {"policy": (5,), "points": (12, 6), "wrist": (9, 3), "depth": (1, 16, 16)}
CRITIC = {"critic": (7,)}
SHAPES = {**ACTOR, **CRITIC}
Policy = Callable[[Mapping[str, Tensor]], Tensor]


def settings(kind: Any) -> dict[str, Any]:
    encoder = ppo.EncoderSettings(point_encoder=kind, point_channels=(8, 16), depth_channels=(4,), depth_latent=8)
    return {
        "actor": list(ACTOR),
        "critic": list(CRITIC),
        "encoder": encoder.to_dict(),
        "actor_hidden": [16],
        "critic_hidden": [8],
        "activation": "elu",
        "init_std": 1.0,
        "aux_coef": 0.0,
    }


def space(shapes: Mapping[str, tuple[int, ...]]) -> gym.spaces.Dict:
    return gym.spaces.Dict({name: gym.spaces.Box(-1.0, 1.0, shape) for name, shape in shapes.items()})


def rsl_rl(kind: str) -> Policy:
    pytest.importorskip("rsl_rl")
    from isaaclab_pc.agents.rsl_rl_model import PointCloudModel

    encoder = settings(kind)["encoder"]
    like = TensorDict({name: torch.zeros(1, *shape) for name, shape in SHAPES.items()}, batch_size=[1])
    model = PointCloudModel(like, {"actor": list(ACTOR)}, "actor", 3, encoder=encoder, hidden_dims=[16])
    return lambda obs: model(TensorDict(dict(obs), batch_size=[len(obs["policy"])]))


def rl_games(kind: str) -> Policy:
    pytest.importorskip("rl_games")
    from isaaclab_pc.agents.rl_games_network import PointCloudNetwork

    network = PointCloudNetwork(SHAPES, 3, **settings(kind))
    return lambda obs: network({"obs": obs, "is_train": False})[0]


def skrl(kind: str) -> Policy:
    pytest.importorskip("skrl")
    from isaaclab_pc.agents.skrl_model import PointCloudModel

    model = PointCloudModel(
        observation_space=space(ACTOR),
        state_space=space(CRITIC),
        action_space=gym.spaces.Box(-1.0, 1.0, (3,)),
        device="cpu",
        **settings(kind),
    )
    return model.policy


def sb3(kind: str) -> Policy:
    pytest.importorskip("stable_baselines3")
    from isaaclab_pc.agents.sb3_policy import PointCloudPolicy

    actions = gym.spaces.Box(-1.0, 1.0, (3,))
    model = PointCloudPolicy(space(SHAPES), actions, lambda left: 1e-3, net_arch=settings(kind))  # pyright: ignore
    return lambda obs: model.get_distribution(obs).mode()


@pytest.mark.parametrize("kind", get_args(PointEncoder))
@pytest.mark.parametrize("make", [rsl_rl, rl_games, skrl, sb3])
def test_a_change_in_any_input_of_the_policy_changes_its_action(make: Callable[[str], Policy], kind: str) -> None:
    torch.manual_seed(0)
    policy = make(kind)
    obs = {name: torch.rand(2, *shape) for name, shape in SHAPES.items()}
    with torch.no_grad():
        action = policy(obs)
        for name in ACTOR:
            changed = {**obs, name: torch.rand_like(obs[name])}
            assert not torch.allclose(policy(changed), action), name

        for channel in range(SHAPES["points"][1]):
            points = obs["points"].clone()
            points[..., channel] = torch.rand_like(points[..., channel])
            assert not torch.allclose(policy({**obs, "points": points}), action), channel

        torch.testing.assert_close(policy({**obs, "critic": torch.rand(2, 7)}), action)

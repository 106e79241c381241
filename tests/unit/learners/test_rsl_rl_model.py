# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL's interface of the policy's network."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from rsl_rl.models import MLPModel
from tensordict import TensorDict

from isaaclab_pc.agents.point_encoders import PointNet
from isaaclab_pc.agents.ppo import EncoderSettings
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.rsl_rl.model import PointCloudModel
from isaaclab_pc.settings.points import PointEncoder

ENCODER = EncoderSettings(
    point_channels=(8, 16), point_frequencies=(2.0,), depth_channels=(4, 8), depth_latent=10
).to_dict()
GROUPS = {"points": ["policy", "points"], "depth": ["policy", "depth"], "state": ["policy"], "blind": ["points"]}
BATCH = 5


@pytest.fixture
def obs() -> TensorDict:
    torch.manual_seed(0)
    shapes = {"policy": (6,), "points": (12, 3), "depth": (1, 16, 16), "critic": (9,)}
    return TensorDict({name: torch.randn(BATCH, *shape) for name, shape in shapes.items()}, batch_size=[BATCH])


def make(
    obs: TensorDict, kind: str, aux_coef: float = 0.0, encoder: str = "pointnet", **memory: Any
) -> PointCloudModel:
    return PointCloudModel(
        obs,
        {"actor": GROUPS[kind]},
        "actor",
        3,
        encoder={**ENCODER, "point_encoder": encoder},
        aux_coef=aux_coef,
        hidden_dims=[16],
        obs_normalization=kind != "blind",
        distribution_cfg={"class_name": "GaussianDistribution", "init_std": 0.5, "std_type": "log"},
        **memory,
    )


def test_without_clouds_it_is_the_stock_model(obs: TensorDict) -> None:
    model = make(obs, "state")
    stock = MLPModel(obs, {"actor": ["policy"]}, "actor", 3, hidden_dims=[16], obs_normalization=True)
    assert [p.shape for p in model.mlp.parameters()] == [p.shape for p in stock.mlp.parameters()]
    assert model.predictor is None


def test_only_vectors_are_normalized(obs: TensorDict) -> None:
    model = make(obs, "points")
    model.update_normalization(obs)
    assert model.obs_normalizer.mean.shape == (6,)
    torch.testing.assert_close(model.obs_normalizer.mean, obs["policy"].mean(0))


def test_auxiliary_loss_trains_the_encoder_and_leaves_the_action(obs: TensorDict) -> None:
    model = make(obs, "points", aux_coef=1.0)
    model.update_normalization(obs)
    with torch.no_grad():
        expected = model(obs)
    action = model(obs)
    torch.testing.assert_close(action.detach(), expected)
    (action.sum() * 0.0).backward()
    encoder = model.encoder.encoders["points"]
    assert isinstance(encoder, PointNet)
    assert encoder.last.weight.grad is not None
    assert encoder.last.weight.grad.abs().sum() > 0.0
    assert model.predictor is not None
    torch.testing.assert_close(model.predictor.norm.mean, obs["critic"].mean(0))


@pytest.mark.parametrize(
    ("kind", "encoder"),
    [("depth", "pointnet"), *(("points", encoder) for encoder in get_args(PointEncoder))],
)
def test_exports_act_like_the_model(obs: TensorDict, kind: str, encoder: str, tmp_path: Path) -> None:
    model = make(obs, kind, encoder=encoder)
    model.update_normalization(obs)
    expected = model(obs).detach()

    scripted: Any = torch.jit.script(model.as_jit())
    torch.jit.save(scripted, str(tmp_path / "policy.pt"))
    loaded: Any = torch.jit.load(str(tmp_path / "policy.pt"))
    torch.testing.assert_close(loaded(obs["policy"], obs[kind]), expected)

    onnx: Any = model.as_onnx(verbose=False)
    assert onnx.input_names == ("obs", kind)
    assert [tuple(x.shape) for x in onnx.get_dummy_inputs()] == [(1, 6), (1, *obs[kind].shape[1:])]
    torch.testing.assert_close(onnx(obs["policy"], obs[kind]), expected)


@pytest.mark.parametrize("export", ["as_jit", "as_onnx"])
def test_a_policy_with_a_memory_leaves_its_export_to_our_own_script(obs: TensorDict, export: str) -> None:
    with pytest.raises(ConfigError, match=r"scripts/export\.py"):
        getattr(make(obs, "points", rnn_type="gru"), export)()

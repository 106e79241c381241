# SPDX-License-Identifier: BSD-3-Clause
"""Policies as TorchScript and ONNX files: the actions of the runner, for any number of observations."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rsl_rl.models import CNNModel
from tensordict import TensorDict
from torch import Tensor, nn

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.export.exported_policy import (
    PlainPolicy,
    compare,
    compute_in_float32,
    load_onnx,
    load_torchscript,
    milliseconds,
)
from isaaclab_pc.learners import RUNNERS
from tests.unit.learners.bench import SETTINGS, Bench
from tests.unit.learners.fake_env import EPISODE
from tests.unit.learners.test_recurrent import Policy, go_on, make

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize(
    ("obs", "frames"), [("points", 1), ("depth", 1), ("state", 1), ("points", 3), ("depth", 2)], ids=str
)
@pytest.mark.parametrize("name", RUNNERS)
def test_exported_actions_are_those_of_the_runner(name: str, obs: str, frames: int, tmp_path: Path) -> None:
    trained = Bench(name, tmp_path / "run", obs, history_length=frames)
    trained.train(1)
    trained.runner.save(tmp_path / "model.pt", {})
    bench = Bench(name, tmp_path / "export", obs, history_length=frames)
    bench.runner.load_policy(tmp_path / "model.pt")
    observed = bench.env.observe()
    policy = PlainPolicy(bench.runner.policy(), observed)
    inputs = policy.inputs(observed)
    assert policy.groups == (["policy"] if obs == "state" else ["policy", obs])
    assert {value.dtype for value in inputs.values()} == {torch.float32}

    policy.write_torchscript(tmp_path / "policy.pt", inputs)
    runs = [load_torchscript(tmp_path / "policy.pt")]
    # ONNX takes seconds to write, and reads what was written alike.
    if (obs == "points" and frames == 1) or name == "rsl_rl":
        policy.write_onnx(tmp_path / "policy.onnx", inputs)
        runs.append(load_onnx(tmp_path / "policy.onnx"))
    for run in runs:
        compare(run, inputs, bench.act())
        assert milliseconds(run, {name: value[:1] for name, value in inputs.items()}, repeats=10) > 0.0


@pytest.mark.parametrize("name", RUNNERS)
def test_a_policy_that_trained_in_bfloat16_is_exported_in_float32(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path / "a", encoder=replace(SETTINGS.encoder, precision="bf16"))
    same = Bench(name, tmp_path / "b")
    observed = bench.env.observe()
    compute_in_float32(bench.runner.policy())
    torch.testing.assert_close(bench.act(), same.act(), rtol=0, atol=0)

    policy = PlainPolicy(bench.runner.policy(), observed)
    inputs = policy.inputs(observed)
    policy.write_torchscript(tmp_path / "policy.pt", inputs)
    compare(load_torchscript(tmp_path / "policy.pt"), inputs, same.act())


def test_a_policy_of_vectors_and_images_is_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    seen = {"policy": torch.randn(5, 7), "front": torch.randn(5, 1, 12, 16), "wrist": torch.randn(5, 3, 8, 8)}
    obs = TensorDict(seen, batch_size=5)
    layers = {"output_channels": [4, 8], "kernel_size": 3, "stride": 2}
    model = CNNModel(obs, {"actor": list(seen)}, "actor", 4, cnn_cfg=layers, obs_normalization=True)
    model.update_normalization(obs)
    policy = PlainPolicy(model.eval(), seen)
    inputs = policy.inputs(seen)
    assert set(inputs) == {"policy", "front", "wrist"}

    policy.write_torchscript(tmp_path / "policy.pt", inputs)
    policy.write_onnx(tmp_path / "policy.onnx", inputs)
    for run in (load_torchscript(tmp_path / "policy.pt"), load_onnx(tmp_path / "policy.onnx")):
        assert compare(run, inputs, model(obs).detach()) < 1e-6


def test_actions_that_differ_are_an_error() -> None:
    inputs = {"policy": torch.ones(3, 2)}
    assert compare(lambda given: [given["policy"]], inputs, torch.ones(3, 2)) == 0.0
    with pytest.raises(RuntimeError, match=r" 2\.0e-05"):
        compare(lambda given: [given["policy"] + 2e-5], inputs, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="differ"):
        compare(lambda given: [given["policy"] * torch.nan], inputs, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="shape"):
        compare(lambda given: [given["policy"][:, :1]], inputs, torch.ones(3, 2))


@pytest.mark.parametrize(("kind", "layers"), [("gru", 1), ("lstm", 2)])
@pytest.mark.parametrize("library", ["rsl_rl", "rl_games"])
def test_a_policy_with_a_memory_is_given_it_and_acts_as_the_runner(
    library: str, kind: str, layers: int, tmp_path: Path
) -> None:
    policy_of = Policy(library, kind)
    _, trained = make(policy_of, tmp_path / "run", rnn_num_layers=layers)
    trained.train(2, go_on)
    trained.save(tmp_path / "model.pt", {})
    env, runner = make(policy_of, tmp_path / "export", rnn_num_layers=layers)
    runner.load_policy(tmp_path / "model.pt")

    env.reset()
    observed, actions, began = [], [], []
    for _ in range(10):
        observed.append(env.observe())
        # The other environments are at other places of the same episode.
        began.append(bool(env.episode_length_buf[0] == 0))
        actions.append(runner.act(observed[-1])[:1].clone())
        env.step(actions[-1].expand(env.num_envs, -1))
    assert began == [step % EPISODE == 0 for step in range(10)]

    policy = PlainPolicy(runner.policy(), observed[0])
    inputs = policy.inputs({name: torch.cat([obs[name][:1] for obs in observed]) for name in observed[0]})
    names = ["hidden"] if kind == "gru" else ["hidden", "cell"]
    assert {name: tuple(value.shape) for name, value in policy.state.items()} == dict.fromkeys(names, (layers, 1, 8))

    policy.write_torchscript(tmp_path / "policy.pt", inputs)
    policy.write_onnx(tmp_path / "policy.onnx", inputs)
    onnx.checker.check_model(str(tmp_path / "policy.onnx"), full_check=True)
    for run in (load_torchscript(tmp_path / "policy.pt"), load_onnx(tmp_path / "policy.onnx")):
        compare(run, inputs, torch.cat(actions), policy.state, began)
        with pytest.raises(RuntimeError, match="differ"):
            compare(run, inputs, torch.cat(actions), policy.state, [True] * 10)


def test_a_memory_of_another_package_is_refused() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.GRU(2, 2)

        def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
            return self.memory(obs["policy"])[0]

    with pytest.raises(ConfigError, match="recurrent"):
        PlainPolicy(Remembers(), {"policy": torch.ones(3, 2)})

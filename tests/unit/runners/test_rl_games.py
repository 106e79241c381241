# SPDX-License-Identifier: BSD-3-Clause
"""Where RL-Games is made to mean what RSL-RL means by a hyperparameter."""

import copy
import gc
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from isaaclab_pc.agents import ppo, rl_games_cfg
from isaaclab_pc.runners import Decision, rl_games, rl_games_agent
from isaaclab_pc.scaling import BatchPlan
from isaaclab_pc.tensor_bytes import tensor_bytes
from tests.unit.runners.fake_env import ACTIONS, NUM_POINTS, FakeEnv, FakeRlGamesEnv


@pytest.fixture
def runner(tmp_path: Path) -> rl_games.RlGamesRunner:
    cfg = rl_games_cfg.make_cfg(ppo.REACH, "x")
    plan = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)
    rl_games.ADAPTER.configure(cfg, obs="points", seed=1, max_iterations=2, device="cpu", plan=plan, experiment="x")
    return rl_games.RlGamesRunner(FakeRlGamesEnv(FakeEnv()), cfg, tmp_path, "cpu")


def test_minibatches_are_random_and_keep_a_sample_together(runner: rl_games.RlGamesRunner) -> None:
    dataset: Any = runner._agent.dataset
    numbers = torch.arange(32)
    samples = {"actions": numbers, "obs": {"points": numbers * 10}, "rnn_masks": None}
    seen = []
    for _ in range(2):
        dataset.update_values_dict(samples)
        batches = [dataset[i] for i in range(len(dataset))]
        for batch in batches:
            assert torch.equal(batch["obs"]["points"], batch["actions"] * 10)
        order = torch.cat([batch["actions"] for batch in batches])
        assert torch.equal(order.sort().values, numbers)
        seen.append(order)
    assert not torch.equal(seen[0], numbers)
    assert not torch.equal(seen[0], seen[1])


def test_divergence_is_measured_against_the_policy_that_acted(runner: rl_games.RlGamesRunner) -> None:
    dataset: Any = runner._agent.dataset
    dataset.update_values_dict({"mu": torch.zeros(32, 3), "sigma": torch.ones(32, 3)})
    dataset[0]
    dataset.update_mu_sigma(torch.full((16, 3), 5.0), torch.full((16, 3), 5.0))
    assert not dataset[0]["mu"].any()


def test_step_size_follows_the_divergence_but_not_that_of_the_first_minibatch() -> None:
    schedule = rl_games_agent.PolicySchedule(0.01)
    assert schedule.update(1e-3, 0.0, 1, 0, 0.0)[0] == 1e-3
    assert schedule.update(1e-3, 0.0, 1, 0, 0.001)[0] == pytest.approx(1.5e-3)
    assert schedule.update(1e-3, 0.0, 1, 0, 0.05)[0] == pytest.approx(1e-3 / 1.5)
    assert schedule.update(1e-3, 0.0, 2, 0, 0.05)[0] == 1e-3
    assert schedule.update(1.1e-5, 0.0, 2, 0, 0.05)[0] == 1e-5


def test_a_large_gradient_of_the_critic_leaves_the_actor_alone(runner: rl_games.RlGamesRunner) -> None:
    agent: Any = runner._agent
    actor, critic = agent.model.a2c_network.clipping_groups()
    assert len(actor) + len(critic) == len(list(agent.model.parameters()))
    for parameter in actor:
        parameter.grad = torch.full_like(parameter, 1e-6)
    for parameter in critic:
        parameter.grad = torch.full_like(parameter, 1e3)
    agent.trancate_gradients_and_step()
    assert all(torch.equal(p.grad, torch.full_like(p, 1e-6)) for p in actor if p.grad is not None)
    norm = nn.utils.get_total_norm([p.grad for p in critic if p.grad is not None])
    assert float(norm) == pytest.approx(agent.grad_norm, rel=1e-3)


def test_mixed_precision_clips_the_gradient_and_not_its_scaled_copy(runner: rl_games.RlGamesRunner) -> None:
    agent: Any = runner._agent
    agent.scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=1024.0)
    agent.scaler.scale(torch.zeros(1))
    parameters = list(agent.model.parameters())
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 1024.0 * 1e-3)
    agent.trancate_gradients_and_step()
    assert all(torch.allclose(p.grad, torch.full_like(p, 1e-3)) for p in parameters if p.grad is not None)


@pytest.mark.parametrize("truncate", [True, False], ids=["clipped", "not clipped"])
def test_mixed_precision_leaves_out_an_overflow_and_then_steps_as_without_a_scale(
    runner: rl_games.RlGamesRunner, truncate: bool
) -> None:
    agent: Any = runner._agent
    agent.truncate_grads = truncate
    weights = [parameter.detach().clone() for parameter in agent.model.parameters()]
    optimizer = copy.deepcopy(agent.optimizer.state_dict())

    def step(gradient: float) -> list[torch.Tensor]:
        """Take the agent's step for a loss whose gradient is everywhere the same; return the change of the weights."""
        before = [parameter.detach().clone() for parameter in agent.model.parameters()]
        agent.optimizer.zero_grad()
        loss = sum(parameter.sum() for parameter in agent.model.parameters()) * gradient
        agent.scaler.scale(loss).backward()
        agent.trancate_gradients_and_step()
        return [new.detach() - old for new, old in zip(agent.model.parameters(), before, strict=True)]

    expected = step(1e-3)
    agent.optimizer.load_state_dict(optimizer)
    for parameter, old in zip(agent.model.parameters(), weights, strict=True):
        parameter.data.copy_(old)

    agent.scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=1024.0)
    assert not any(change.any() for change in step(1e38))
    assert agent.scaler.get_scale() == 512.0
    for change, wanted in zip(step(1e-3), expected, strict=True):
        torch.testing.assert_close(change, wanted)
    assert agent.tripwire.end_iteration() == {"Learner/updates": 3.0, "Learner/skipped_updates": 1.0}


def test_a_network_that_names_no_groups_is_clipped_as_a_whole(runner: rl_games.RlGamesRunner) -> None:
    agent: Any = runner._agent
    agent.model.a2c_network = nn.Sequential(agent.model.a2c_network)
    for parameter in agent.model.parameters():
        parameter.grad = torch.full_like(parameter, 1e3)
    agent.trancate_gradients_and_step()
    norm = nn.utils.get_total_norm([p.grad for p in agent.model.parameters() if p.grad is not None])
    assert float(norm) == pytest.approx(agent.grad_norm, rel=1e-3)


def test_a_stock_network_keeps_its_observation_groups() -> None:
    cfg = rl_games_cfg.make_cfg(ppo.REACH, "x")
    cfg["params"]["network"] = {"name": "actor_critic", "separate": False}
    cfg["params"]["env"]["obs_groups"] = {"obs": ["policy"], "states": []}
    rl_games.ADAPTER.configure(cfg, obs="points", seed=1, max_iterations=None, device="cpu", plan=None, experiment="x")
    assert cfg["params"]["network"] == {"name": "actor_critic", "separate": False}
    assert cfg["params"]["env"]["obs_groups"] == {"obs": ["policy"], "states": []}


class VectorEnv(FakeRlGamesEnv):
    """The fake environment as RL-Games' own networks take it: one vector, and actions with bounds."""

    def get_env_info(self) -> dict[str, Any]:
        observations = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        return {**super().get_env_info(), "observation_space": observations, "action_space": ACTION_SPACE}


class StateEnv(VectorEnv):
    """The same, with a state for a critic that is a network of its own."""

    def get_env_info(self) -> dict[str, Any]:
        return {**super().get_env_info(), "state_space": gymnasium.spaces.Box(-np.inf, np.inf, (5,))}

    def reset(self) -> dict[str, Any]:
        super().reset()
        return self._observe()

    def step(self, actions: torch.Tensor) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor, dict[str, Any]]:
        _, rewards, dones, infos = super().step(actions)
        return self._observe(), rewards, dones, infos

    def _observe(self) -> dict[str, Any]:
        obs = self.unwrapped.observe()
        return {"obs": obs["policy"], "states": obs["critic"]}


ACTION_SPACE = gymnasium.spaces.Box(-2.0, 6.0, (ACTIONS,))
STOCK_NETWORK = {
    "name": "actor_critic",
    "separate": False,
    "space": {
        "continuous": {
            **{"mu_activation": "None", "sigma_activation": "None", "fixed_sigma": True},
            **{"mu_init": {"name": "default"}, "sigma_init": {"name": "const_initializer", "val": 0.0}},
        }
    },
    "mlp": {"units": [8], "activation": "elu", "initializer": {"name": "default"}, "d2rl": False},
}


def test_the_policy_of_a_stock_network_normalizes_and_scales_as_rl_games_does(tmp_path: Path) -> None:
    cfg = rl_games_cfg.make_cfg(ppo.REACH, "x")
    params = cfg["params"]
    params["network"] = STOCK_NETWORK
    params["env"]["obs_groups"] = {"obs": ["policy"], "states": []}
    params["config"] |= {"normalize_input": True, "clip_actions": True}
    plan = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)
    rl_games.ADAPTER.configure(cfg, obs=None, seed=1, max_iterations=2, device="cpu", plan=plan, experiment="x")
    runner = rl_games.RlGamesRunner(VectorEnv(FakeEnv()), cfg, tmp_path, "cpu")
    agent: Any = runner._agent
    agent.model.running_mean_std.running_mean.fill_(0.3)

    obs = FakeEnv().observe()
    with torch.no_grad():
        agent.model.eval()
        given = {"is_train": False, "prev_actions": None, "obs": obs["policy"].clone(), "rnn_states": None}
        expected = agent.preprocess_actions(agent.model(given)["mus"])
    torch.testing.assert_close(runner.act(obs), expected)
    assert float(expected.mean()) == pytest.approx(2.0, abs=1.5)  # the middle of the actions' bounds


def with_central_value(folder: Path) -> rl_games.RlGamesRunner:
    """A runner of four iterations whose learning rates, 0.01 and 0.02, fall in a line, with a critic of its own."""
    cfg = rl_games_cfg.make_cfg(ppo.REACH, "x")
    params = cfg["params"]
    params["network"] = STOCK_NETWORK
    params["env"]["obs_groups"] = {"obs": ["policy"], "states": ["critic"]}
    rates = {"lr_schedule": "linear", "learning_rate": 0.01}
    critic = {
        **{"minibatch_size": 16, "mini_epochs": 1, "learning_rate": 0.02, "lr_schedule": "linear"},
        **{"clip_value": True, "normalize_input": True},
        "network": {"name": "actor_critic", "central_value": True, "mlp": STOCK_NETWORK["mlp"]},
    }
    params["config"] |= {**rates, "central_value_config": critic, "max_frames": 64}
    plan = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)
    rl_games.ADAPTER.configure(cfg, obs=None, seed=1, max_iterations=4, device="cpu", plan=plan, experiment="x")
    return rl_games.RlGamesRunner(StateEnv(FakeEnv()), cfg, folder, "cpu")


def test_linear_schedules_go_on_after_a_resume_and_end_with_the_run(tmp_path: Path) -> None:
    rates: list[tuple[float, float]] = []

    def train(runner: rl_games.RlGamesRunner, until: int) -> None:
        agent: Any = runner._agent

        def on_iteration(completed: int, metrics: Any) -> Decision:
            rates.append((metrics["learning_rate"], agent.central_value_net.optimizer.param_groups[0]["lr"]))
            return Decision.CONTINUE

        runner.train(until, on_iteration)

    first, resumed = (with_central_value(tmp_path / name) for name in ("a", "b"))
    train(first, 1)
    train(first, 2)
    first.save(tmp_path / "2.pt", {})
    resumed.load(tmp_path / "2.pt")
    train(resumed, 4)
    left = [0.75, 0.5, 0.25, 0.0]
    assert [rate for rate, _ in rates] == pytest.approx([1e-6 + share * (0.01 - 1e-6) for share in left])
    assert [rate for _, rate in rates] == pytest.approx([1e-6 + share * (0.02 - 1e-6) for share in left])


def test_a_critic_of_its_own_writes_into_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    runner = with_central_value(tmp_path / "run")
    for iteration in (1, 2):
        runner.train(iteration, lambda completed, metrics: Decision.CONTINUE)
    assert not list(scratch.iterdir())
    log = EventAccumulator(str(tmp_path / "run"))
    log.Reload()
    assert [scalar.step for scalar in log.Scalars("losses/cval_loss")] == [32, 64]


def test_the_policy_acts_as_the_network_will_in_the_next_rollout(runner: rl_games.RlGamesRunner) -> None:
    agent: Any = runner._agent
    # Samples that were counted, and that a rollout would begin to use.
    agent.model.a2c_network.actor_norm.add_samples(torch.randn(20, 2) + 3.0)
    obs = FakeEnv().observe()
    actions = runner.act(obs)
    with torch.no_grad():
        given = {"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": None}
        expected = agent.model(given)["mus"]
    torch.testing.assert_close(actions, expected)


def test_playing_leaves_no_files(runner: rl_games.RlGamesRunner, tmp_path: Path) -> None:
    runner.act(FakeEnv().observe())
    assert not list(tmp_path.iterdir())


def test_clouds_stay_float16(runner: rl_games.RlGamesRunner) -> None:
    runner.train(1, lambda completed, metrics: Decision.CONTINUE)
    storage: Any = runner.holders()["rollout storage"]
    observations = storage[0]["tensor_dict"]["obses"]
    assert {name: tensor.dtype for name, tensor in observations.items()} == {
        "policy": torch.float32,
        "points": torch.float16,
        "critic": torch.float32,
    }
    samples = 8 * 4
    assert observations["points"].nbytes == samples * NUM_POINTS * 3 * 2
    others = (2 + 5 + 3 * ACTIONS) * 4 + 3 * 4 + 1 + 8  # vectors, three numbers, a flag, and its place in the order
    assert tensor_bytes(storage) == samples * (NUM_POINTS * 3 * 2 + others)


def test_a_rollout_is_held_once(runner: rl_games.RlGamesRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = runner._agent
    copies: list[int] = []

    def storages() -> dict[int, Any]:
        tensors = [value for value in gc.get_objects() if type(value) is torch.Tensor]
        return {one.data_ptr(): one for one in (tensor.untyped_storage() for tensor in tensors)}

    # Kept, so that no new tensor takes their place.
    others = storages()

    def watch(name: str) -> None:
        original = getattr(agent, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            rollout = agent.experience_buffer.tensor_dict["obses"]["points"]
            new = [storage for address, storage in storages().items() if address not in others]
            copies.append(sum(storage.nbytes() == rollout.nbytes for storage in new))
            return original(*args, **kwargs)

        monkeypatch.setattr(agent, name, watched)

    watch("prepare_dataset")
    watch("train_actor_critic")
    runner.train(2, lambda completed, metrics: Decision.CONTINUE)

    assert len(copies) > 2
    assert max(copies) == 1, "the rollout itself"

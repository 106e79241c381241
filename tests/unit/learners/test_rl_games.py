# SPDX-License-Identifier: BSD-3-Clause
"""Where RL-Games is made to mean what RSL-RL means by a hyperparameter."""

import copy
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners import Decision, LearnerOptions
from isaaclab_pc.learners.rl_games import adapter as rl_games
from isaaclab_pc.learners.rl_games import agent as rl_games_agent
from isaaclab_pc.learners.rl_games import cfg as rl_games_cfg
from tests.unit.learners.bench import go_on, make_runner, train
from tests.unit.learners.fake_env import FakeEnv


@pytest.fixture
def runner(tmp_path: Path) -> Any:
    return make_runner("rl_games", rl_games_cfg.make_cfg(ppo.REACH, "x"), FakeEnv(), tmp_path)


@pytest.fixture
def agent(runner: Any) -> Any:
    return runner._agent


def test_minibatches_are_random_and_keep_a_sample_together(agent: Any) -> None:
    dataset = agent.dataset
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


def test_divergence_is_measured_against_the_policy_that_acted(agent: Any) -> None:
    dataset = agent.dataset
    dataset.update_values_dict({"mu": torch.zeros(32, 3), "sigma": torch.ones(32, 3)})
    dataset[0]
    dataset.update_mu_sigma(torch.full((16, 3), 5.0), torch.full((16, 3), 5.0))
    assert not dataset[0]["mu"].any()


def test_step_size_follows_the_divergence_but_not_that_of_the_first_minibatch() -> None:
    schedule = rl_games_agent.PolicySchedule(0.01, of_minibatches=True)
    assert schedule.update(1e-3, 0.0, 1, 0, 0.0)[0] == 1e-3
    assert schedule.update(1e-3, 0.0, 1, 0, 0.001)[0] == pytest.approx(1.5e-3)
    assert schedule.update(1e-3, 0.0, 1, 0, 0.05)[0] == pytest.approx(1e-3 / 1.5)
    assert schedule.update(1e-3, 0.0, 2, 0, 0.05)[0] == 1e-3
    assert schedule.update(1.1e-5, 0.0, 2, 0, 0.05)[0] == 1e-5


def test_the_schedule_of_epochs_counts_the_first_one_too(tmp_path: Path) -> None:
    runner = stock_runner(tmp_path, config={"schedule_type": "standard"})
    schedule: Any = runner._agent.scheduler
    assert schedule.update(1e-3, 0.0, 1, 0, 1.0)[0] == pytest.approx(1e-3 / 1.5)


@pytest.mark.parametrize("truncate", [True, False], ids=["clipped", "not clipped"])
def test_mixed_precision_leaves_out_an_overflow_and_then_steps_as_without_a_scale(agent: Any, truncate: bool) -> None:
    agent.truncate_grads = truncate
    weights = [parameter.detach().clone() for parameter in agent.model.parameters()]
    optimizer = copy.deepcopy(agent.optimizer.state_dict())

    def step(gradient: float) -> list[torch.Tensor]:
        """Take the agent's step with the same gradient for every weight; return the change of the weights."""
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
    assert agent.tripwires[0].end_iteration() == {"Learner/updates": 3.0, "Learner/skipped_updates": 1.0}


def test_a_network_that_names_no_groups_is_clipped_as_a_whole(agent: Any) -> None:
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
    rl_games.ADAPTER.configure(cfg, LearnerOptions(obs="points", seed=1, device="cpu"))
    assert cfg["params"]["network"] == {"name": "actor_critic", "separate": False}
    assert cfg["params"]["env"]["obs_groups"] == {"obs": ["policy"], "states": []}


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


def stock_runner(folder: Path, *, iterations: int = 2, states: tuple[str, ...] = (), **sections: Any) -> Any:
    """A runner with a stock network, which reads one vector, and settings of some sections of the configuration."""
    cfg = rl_games_cfg.make_cfg(ppo.REACH, "x")
    params = cfg["params"]
    params["network"] = STOCK_NETWORK
    params["env"] = {"obs_groups": {"obs": ["policy"], "states": list(states)}, "concate_obs_groups": True}
    for name, settings in sections.items():
        params[name] = {**params[name], **settings}
    return make_runner("rl_games", cfg, FakeEnv(), folder, obs=None, max_iterations=iterations)


def computed(agent: Any, obs: Any, states: Any = None) -> dict[str, Any]:
    """Return what a model computes in a rollout."""
    agent.model.eval()
    with torch.no_grad():
        return agent.model({"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": states})


def test_the_policy_of_a_stock_network_normalizes_and_scales_as_rl_games_does(tmp_path: Path) -> None:
    config = {"normalize_input": True, "clip_actions": True}
    clipping = {"clip_observations": 0.9, "clip_actions": 2.0}
    torch.manual_seed(1)
    runner = stock_runner(tmp_path, config=config, env=clipping)
    agent: Any = runner._agent
    agent.model.running_mean_std.running_mean.fill_(0.3)

    obs = FakeEnv().observe()
    clipped = obs["policy"].clamp(-0.9, 0.9)
    assert (clipped != obs["policy"]).any()
    means = computed(agent, clipped.clone())["mus"]
    torch.testing.assert_close(runner.act(obs), agent.preprocess_actions(means))
    torch.testing.assert_close(runner.act(obs), 2.0 * means.clamp(-1.0, 1.0))


def test_bytes_are_the_floats_that_the_wrapper_of_the_environment_makes_of_them(tmp_path: Path) -> None:
    env = FakeEnv()
    env.single_observation_space["policy"] = gymnasium.spaces.Box(0, 255, (2,), np.uint8)
    runner: Any = make_runner("rl_games", rl_games_cfg.make_cfg(ppo.REACH, "x"), env, tmp_path / "groups")
    dtypes = {name: space.dtype for name, space in runner._agent.observation_space.items()}
    assert (dtypes["policy"], dtypes["points"]) == (np.float32, np.float16)

    runner = stock_runner(tmp_path / "vector")
    ones = torch.ones(4, 2)
    assert torch.equal(runner.act({"policy": ones.byte()}), runner.act({"policy": ones}))


@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_recurrent_network_of_rl_games_own_acts_on_what_it_saw(kind: str, separate: bool, tmp_path: Path) -> None:
    network = {"separate": separate, "rnn": {"name": kind, "units": 8, "layers": 1}}
    runner = stock_runner(tmp_path, network=network, config={"seq_length": 4})
    runner.train(1, go_on)

    agent: Any = runner._agent
    env = agent.vec_env.unwrapped
    env.reset()
    states = agent.model.get_default_rnn_state()
    for _ in range(3):
        obs = env.observe()
        expected = computed(agent, obs["policy"].clone(), states)
        states = expected["rnn_states"]
        torch.testing.assert_close(runner.act(obs), expected["mus"])
        env.step(expected["mus"])

    later = runner.act(obs)
    env.reset()
    fresh = runner.act(obs)
    assert not torch.allclose(later, fresh)
    # Where an episode goes on, what was seen is remembered.
    env.episode_length_buf[:2] = 1
    again = runner.act(obs)
    torch.testing.assert_close(again[2:], fresh[2:])
    assert not torch.allclose(again[:2], fresh[:2])
    runner.train(2, go_on)


def with_central_value(folder: Path) -> Any:
    """A runner of four iterations with a critic of its own; the learning rates, 0.01 and 0.02, fall in a line."""
    rates = {"lr_schedule": "linear", "learning_rate": 0.01}
    critic = {
        **{"minibatch_size": 32768, "mini_epochs": 1, "learning_rate": 0.02, "lr_schedule": "linear"},
        **{"clip_value": True, "normalize_input": True},
        "network": {"name": "actor_critic", "central_value": True, "mlp": STOCK_NETWORK["mlp"]},
    }
    config = {**rates, "central_value_config": critic, "max_frames": 64}
    return stock_runner(folder, iterations=4, states=("critic",), config=config)


def test_a_bad_update_of_a_critic_of_its_own_does_not_happen(tmp_path: Path) -> None:
    runner = with_central_value(tmp_path)
    critic: Any = runner._agent.central_value_net
    assert len(critic.dataset) == 2, "its minibatch is that of the plan"
    before = {name: value.clone() for name, value in critic.state_dict().items()}
    env = runner._agent.vec_env.unwrapped.fake
    observe = env.observe

    def poisoned() -> dict[str, torch.Tensor]:
        obs = observe()
        return {**obs, "critic": torch.full_like(obs["critic"], torch.nan)}

    env.observe = poisoned
    assert train(runner, 1)[0]["Learner/stopped_optimizers"] >= 1.0
    torch.testing.assert_close(dict(critic.state_dict()), before, rtol=0, atol=0)

    env.observe = observe
    assert train(runner, 2)[0]["Learner/skipped_updates"] == 0.0
    assert all(value.isfinite().all() for value in critic.state_dict().values())
    assert any(not torch.equal(value, before[name]) for name, value in critic.state_dict().items())


def test_linear_schedules_and_the_log_go_on_after_a_resume_and_end_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    rates: list[tuple[float, float]] = []

    def train(runner: Any, until: int) -> None:
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

    assert not list(scratch.iterdir())
    log = EventAccumulator(str(tmp_path / "a"))
    log.Reload()
    # Two files of one second have no order.
    assert sorted(scalar.step for scalar in log.Scalars("losses/cval_loss")) == [32, 64]


def test_the_policy_acts_as_the_network_will_in_the_next_rollout(runner: Any, agent: Any) -> None:
    # Samples that were counted, and that a rollout would begin to use.
    agent.model.a2c_network.actor_norm.add_samples(torch.randn(20, 2) + 3.0)
    obs = FakeEnv().observe()
    actions = runner.act(obs)
    torch.testing.assert_close(actions, computed(agent, obs)["mus"])

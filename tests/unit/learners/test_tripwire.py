# SPDX-License-Identifier: BSD-3-Clause
"""Updates with values that are not finite do not happen, whatever the optimizer and the library."""

import copy
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from isaaclab_rl.rsl_rl import RslRlRndCfg
from torch import nn

from isaaclab_pc.agents.networks import StatePredictor
from isaaclab_pc.learners import Decision
from isaaclab_pc.learners.common.tripwire import Tripwire, end_iteration
from tests.unit.learners.bench import CONFIGS, Bench
from tests.unit.learners.fake_env import FakeEnv

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "fused adam": lambda parameters, **kwargs: torch.optim.Adam(parameters, fused=True, **kwargs),
    "adamw": torch.optim.AdamW,
    "sgd": lambda parameters, **kwargs: torch.optim.SGD(parameters, momentum=0.9, **kwargs),
    "rmsprop": torch.optim.RMSprop,
}
GOOD = (1.0, -2.0, 0.5)


def make_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def update(network: nn.Module, optimizer: torch.optim.Optimizer, target: float) -> None:
    """One update as the libraries do it: backward, clip, step."""
    optimizer.zero_grad()
    (network(torch.ones(2, 3)) - target).square().mean().backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()


def moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for state in optimizer.state_dict()["state"].values() for value in state.values()]


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30])
def test_skipped_updates_leave_no_trace(kind: str, bad: float) -> None:
    reference, network = make_network(), make_network()
    expected = OPTIMIZERS[kind](reference.parameters(), lr=0.1)
    for group in expected.param_groups:
        group["fused"] = "adam" in kind
    optimizer = OPTIMIZERS[kind](network.parameters(), lr=0.1)
    tripwire = Tripwire(optimizer, [network])
    for target in GOOD:
        update(reference, expected, target)
    for target in (bad, GOOD[0], bad, GOOD[1], GOOD[2], bad):
        update(network, optimizer, target)
    assert tripwire.end_iteration() == {"Learner/updates": 6.0, "Learner/skipped_updates": 3.0}
    assert tripwire.end_iteration() == {"Learner/updates": 0.0, "Learner/skipped_updates": 0.0}
    # Bit-identical: the moments neither decayed, nor was a step counted.
    torch.testing.assert_close(list(network.parameters()), list(reference.parameters()), rtol=0, atol=0)
    torch.testing.assert_close(moments(optimizer), moments(expected), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["adam", "fused adam", "adamw"])
def test_the_scaler_of_mixed_precision_keeps_its_own_word(kind: str) -> None:
    network = make_network()
    optimizer = OPTIMIZERS[kind](network.parameters())
    tripwire = Tripwire(optimizer, [network])
    scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=4.0)
    for target in (1.0, math.nan, 2.0):
        optimizer.zero_grad()
        scaler.scale((network(torch.ones(2, 3)) - target).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert tripwire.end_iteration() == {"Learner/updates": 3.0, "Learner/skipped_updates": 1.0}
    assert scaler.get_scale() == 2.0  # it backs off by half
    assert int(optimizer.state_dict()["state"][0]["step"]) == 2


def test_the_state_of_an_optimizer_that_was_not_fused_is_taken_over() -> None:
    old, network = make_network(), make_network()
    plain = torch.optim.Adam(old.parameters(), lr=0.1)
    update(old, plain, 1.0)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    tripwire = Tripwire(optimizer, [network])
    optimizer.load_state_dict(plain.state_dict())
    update(network, optimizer, math.nan)
    assert tripwire.end_iteration()["Learner/skipped_updates"] == 1.0
    torch.testing.assert_close(moments(optimizer), moments(plain), rtol=0, atol=0)


def test_parameters_that_are_frozen_are_left_out() -> None:
    network = make_network()
    frozen, _, trained = cast(Any, network)
    frozen.requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    tripwire = Tripwire(optimizer, [network])
    before = copy.deepcopy(network.state_dict())
    update(network, optimizer, math.nan)
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    update(network, optimizer, 1.0)
    assert torch.equal(frozen.weight, before["0.weight"])
    assert not torch.equal(trained.weight, before["2.weight"])
    assert tripwire.end_iteration() == {"Learner/updates": 2.0, "Learner/skipped_updates": 1.0}


def test_a_bad_loss_of_another_optimizer_that_passes_through_skips_no_update() -> None:
    actor, critic = nn.Linear(3, 3), make_network()
    optimizers = [torch.optim.Adam(network.parameters(), lr=0.1) for network in (actor, critic)]
    tripwires = [Tripwire(optimizer, [network]) for optimizer, network in zip(optimizers, (actor, critic), strict=True)]
    for _ in range(2):
        update(critic, optimizers[1], 1.0)
        optimizers[0].zero_grad()
        (critic(actor(torch.ones(2, 3))).mean() * math.nan).backward()
        optimizers[0].step()
    counts = [tripwire.end_iteration()["Learner/skipped_updates"] for tripwire in tripwires]
    assert counts == [2.0, 0.0]


def test_of_several_optimizers_one_that_skips_all_its_updates_is_told() -> None:
    networks = make_network(), make_network()
    optimizers = [torch.optim.Adam(network.parameters(), lr=0.1) for network in networks]
    tripwires = [Tripwire(optimizer, [network]) for optimizer, network in zip(optimizers, networks, strict=True)]
    for target in GOOD[:2]:
        update(networks[0], optimizers[0], target)
        update(networks[1], optimizers[1], math.nan)
    told = {"Learner/updates": 4.0, "Learner/skipped_updates": 2.0, "Learner/stopped_optimizers": 1.0}
    assert end_iteration(tripwires) == told
    assert end_iteration(tripwires)["Learner/stopped_optimizers"] == 0.0, "nothing was asked of either"
    assert "Learner/stopped_optimizers" not in end_iteration(tripwires[:1])


class Poison:
    """Puts a value into the first environment's reward or observation at some steps."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, *, target: str, value: float) -> None:
        self.steps: range | tuple[int, ...] = ()
        env = bench.env
        step, observe = env.step, env.observe

        def poisoned_observe() -> dict[str, torch.Tensor]:
            obs = observe()
            if target == "obs" and env.steps_taken in self.steps:
                obs["policy"][0, 0] = value
                obs["critic"][0, 0] = value
            return obs

        def poisoned_step(actions: torch.Tensor) -> Any:
            obs, reward, dones, extras = step(actions.nan_to_num())
            if target == "reward" and env.steps_taken in self.steps:
                reward[0] = value
            return obs, reward, dones, extras

        monkeypatch.setattr(env, "step", poisoned_step)
        monkeypatch.setattr(env, "observe", poisoned_observe)


def learner(bench: Bench) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], list[torch.Tensor]]:
    """Copy a bench's parameters, buffers, and the optimizer's moments."""
    runner: Any = bench.runner
    networks = [runner._agent.model] if bench.name == "rl_games" else runner.holders()["network weights"]
    optimizers: dict[str, Callable] = {
        "rsl_rl": lambda: runner._library.alg.optimizer,
        "sb3": lambda: runner._agent.policy.optimizer,
    }
    optimizer = optimizers.get(bench.name, lambda: runner._agent.optimizer)()
    parameters = {f"{i}.{key}": p.detach() for i, net in enumerate(networks) for key, p in net.named_parameters()}
    buffers = {f"{i}.{key}": buffer for i, net in enumerate(networks) for key, buffer in net.named_buffers()}
    return copy.deepcopy((parameters, buffers, moments(optimizer)))


@pytest.mark.parametrize("target", ["reward", "obs"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_poisoned_iteration_changes_nothing_and_the_next_one_learns(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, value: float
) -> None:
    bench = Bench(name, tmp_path, aux_coef=0.5)
    poison = Poison(bench, monkeypatch, target=target, value=value)
    states: list[Any] = []
    metrics: list[Mapping[str, float]] = []

    def on_iteration(completed: int, reported: Mapping[str, float]) -> Decision:
        states.append(learner(bench))
        metrics.append(reported)
        steps = bench.env.steps_taken
        poison.steps = (steps + 3,) if completed == 1 else ()
        return Decision.CONTINUE

    bench.runner.train(3, on_iteration)
    assert [m["Learner/skipped_updates"] for m in metrics] == [0.0, 4.0, 0.0]
    assert all(m["Learner/updates"] == 4.0 for m in metrics)
    (clean, _, clean_moments), (poisoned, buffers, poisoned_moments), (after, after_buffers, _) = states
    torch.testing.assert_close(poisoned, clean, rtol=0, atol=0)
    torch.testing.assert_close(poisoned_moments, clean_moments, rtol=0, atol=0)
    assert any(not torch.equal(after[key], clean[key]) for key in clean)
    for tensors in (poisoned, buffers, after, after_buffers):
        assert all(tensor.isfinite().all() for tensor in tensors.values())


@pytest.mark.parametrize("name", ["rl_games", "skrl"])
def test_mixed_precision_scales_the_auxiliary_loss_with_the_others(name: str, tmp_path: Path) -> None:
    agent: Any = Bench(name, tmp_path, aux_coef=0.5).runner
    agent = agent._agent
    model = agent.model if name == "rl_games" else agent.policy
    (predictor,) = (module for module in model.modules() if isinstance(module, StatePredictor))
    gradients = []
    for scale in (1.0, 1024.0):
        agent.scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=scale)
        agent.optimizer.zero_grad()
        latents = torch.ones(4, predictor.head.in_features, requires_grad=True)
        loss = predictor(latents, torch.ones(4, predictor.head.out_features)).square().mean()
        agent.scaler.scale(loss).backward()
        assert predictor.head.weight.grad is not None
        assert latents.grad is not None
        gradients.append([predictor.head.weight.grad / scale, latents.grad / scale])
    assert gradients[0][0].any()
    torch.testing.assert_close(*gradients)


def test_a_bad_update_of_rsl_rls_curiosity_does_not_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cfg = CONFIGS["rsl_rl"]

    def curious(settings: Any, experiment: str) -> Any:
        cfg = make_cfg(settings, experiment)
        sizes = {"predictor_hidden_dims": [8], "target_hidden_dims": [8], "num_outputs": 2}
        cfg.algorithm.rnd_cfg = RslRlRndCfg(weight=0.1, reward_normalization=True, state_normalization=True, **sizes)
        cfg.obs_groups = {**cfg.obs_groups, "rnd_state": ["critic"]}
        return cfg

    monkeypatch.setitem(CONFIGS, "rsl_rl", curious)
    monkeypatch.setattr(FakeEnv, "unwrapped", property(lambda env: env), raising=False)
    monkeypatch.setattr(FakeEnv, "step_dt", 1.0, raising=False)
    bench = Bench("rsl_rl", tmp_path)
    curiosity = cast(Any, bench.runner)._library.alg.rnd
    poison = Poison(bench, monkeypatch, target="obs", value=math.nan)
    bench.train(1)
    before = copy.deepcopy(curiosity.state_dict())
    poison.steps = (bench.env.steps_taken + 3,)
    ((_, metrics),) = bench.train(2)
    assert metrics["Learner/updates"] == 2 * 4.0
    assert metrics["Learner/skipped_updates"] >= 4.0
    assert all(value.isfinite().all() for value in curiosity.state_dict().values())

    poison.steps = ()
    ((_, metrics),) = bench.train(3)
    assert metrics["Learner/skipped_updates"] == 0.0
    assert not torch.equal(curiosity.state_dict()["predictor.0.weight"], before["predictor.0.weight"])


def test_what_was_loaded_is_what_a_skipped_update_goes_back_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Bench(name, tmp_path / "a")
    trained.train(2)
    trained.runner.save(tmp_path / "model.pt", {})
    bench = Bench(name, tmp_path / "b")
    bench.runner.load(tmp_path / "model.pt")
    Poison(bench, monkeypatch, target="obs", value=math.nan).steps = (3,)
    bench.train(3)
    parameters, buffers, _ = learner(bench)
    expected_parameters, expected_buffers, _ = learner(trained)
    torch.testing.assert_close(parameters, expected_parameters, rtol=0, atol=0)
    counts = [key for key in buffers if "count" in key]
    assert counts
    assert all(torch.equal(buffers[key], expected_buffers[key]) for key in counts)

# SPDX-License-Identifier: BSD-3-Clause
"""Every adapter trains and acts as documented, on a fake task."""

import gc
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch._dynamo.utils import counters
from torch._inductor import config as inductor
from torch.nn.modules.module import register_module_forward_pre_hook

from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.point_encoders import PointNet
from isaaclab_pc.learners import Decision, Runner
from isaaclab_pc.learners.rsl_rl import cfg as rsl_rl_cfg
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes
from tests.unit.learners.bench import CONFIGS, NUM_ENVS, PLAN, SETTINGS, Bench, go_on, make_runner
from tests.unit.learners.fake_env import ACTIONS, EPISODE, NUM_POINTS, FakeEnv


def test_iterations_are_counted_measured_and_logged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    bench = Bench(name, tmp_path)
    calls = bench.train(3)
    assert capsys.readouterr().out == ""
    assert len(bench.env.episode_length_buf.unique()) > 1, "the first episodes end at different times"
    assert [completed for completed, _ in calls] == [1, 2, 3]
    assert bench.runner.completed_iterations == 3
    assert bench.env.steps_taken == 3 * PLAN.horizon
    metrics = calls[-1][1]
    assert metrics["success_rate"] == 0.5  # steps in which no episode ended log NaN
    assert metrics["Guard/state"] == 2.0
    assert metrics["mean_reward"] < 0.0
    assert 0.0 < metrics["mean_episode_length"] <= 6.0
    for key in ("collect_s", "learn_s", "learning_rate", "action_std", "loss/value"):
        assert metrics[key] > 0.0, key
    expected = NUM_ENVS * PLAN.horizon / (metrics["collect_s"] + metrics["learn_s"])
    assert math.isclose(metrics["Perf/total_fps"], expected, rel_tol=0.2)
    assert metrics["Perf/env_fps"] > metrics["Perf/inference_fps"] > metrics["Perf/total_fps"]
    assert math.isfinite(metrics["loss/surrogate"])

    assert not [path for path in tmp_path.rglob("*") if "tfevents" not in path.name]
    log = EventAccumulator(str(tmp_path))
    log.Reload()
    assert set(log.Tags()["scalars"]) >= {
        *("Train/mean_reward", "Train/mean_episode_length", "Policy/mean_std"),
        *("Loss/learning_rate", "Loss/value", "Loss/surrogate", "Loss/entropy"),
        *("Perf/collection_time", "Perf/learning_time"),
        *("Metrics/success_rate", "Guard/state", "Learner/updates", "Learner/skipped_updates"),
    }
    for tag in ("Perf/env_fps", "Perf/inference_fps", "Perf/total_fps", "Memory/host_bytes"):
        assert len(log.Scalars(tag)) == 3, tag
    assert log.Scalars("Memory/host_bytes")[-1].value > 1 << 20


@pytest.mark.parametrize("obs", ["points", "depth", "state"])
def test_the_policy_is_a_module_that_acts_alike_and_changes_nothing(name: str, obs: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path, obs)
    bench.train(2)
    policy = bench.runner.policy()
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    observed = {group: value for group, value in bench.env.observe().items() if group != "critic"}
    with torch.no_grad():
        actions = policy(observed)
        first = policy({group: value[:1] for group, value in observed.items()})
    torch.testing.assert_close(actions, bench.act(), rtol=0, atol=0)
    torch.testing.assert_close(first, actions[:1])
    torch.testing.assert_close(policy.state_dict(), before, rtol=0, atol=0)


def test_stop_ends_after_that_iteration(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    assert len(bench.train(5, stop_at=2)) == 2
    assert [completed for completed, _ in bench.train(4)] == [3, 4]
    assert bench.train(4) == []


def stored(bench: Bench, group: str) -> torch.Tensor:
    """Return a group of an actor's observations in the rollout, (T, N, ...)."""
    storage: Any = bench.runner.holders()["rollout storage"]
    return {
        "rsl_rl": lambda: storage.observations[group],
        "rl_games": lambda: storage[0]["tensor_dict"]["obses"][group],
        "skrl": lambda: storage[f"observations/{group}"],
        "sb3": lambda: storage[group].unflatten(0, (PLAN.horizon, NUM_ENVS)),
    }[bench.name]()


def stored_numbers(name: str, runner: Runner) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rewards and the values of the rollout, (T, N)."""
    storage: Any = runner.holders()["rollout storage"]
    if name == "rsl_rl":
        storage = vars(storage)
    elif name == "rl_games":
        storage = storage[0]["tensor_dict"]
    rewards, values = (storage[key].reshape(PLAN.horizon, NUM_ENVS) for key in ("rewards", "values"))
    return rewards, values


@pytest.mark.parametrize("is_finite_horizon", [False, True])
def test_an_episode_that_ran_out_of_time_goes_on_with_the_value_of_its_last_observation(
    name: str, tmp_path: Path, is_finite_horizon: bool
) -> None:
    env = FakeEnv(NUM_ENVS)
    env.cfg.is_finite_horizon = is_finite_horizon
    env.fails[0] = True
    given: list[torch.Tensor] = []
    late: list[torch.Tensor] = []
    own_step = env.step

    def step(actions: torch.Tensor) -> Any:
        result = own_step(actions)
        given.append(result[1].clone())
        late.append(env.reset_buf & ~env.fails)
        return result

    env.step = step  # type: ignore[method-assign]
    runner = make_runner(name, CONFIGS[name](SETTINGS, "x"), env, tmp_path)
    runner.train(1, go_on)
    ran_out = torch.stack(late)
    assert 0 < ran_out.sum() < ran_out.numel()
    rewards, values = stored_numbers(name, runner)
    rest = 0.0 if is_finite_horizon else SETTINGS.gamma * values * ran_out
    torch.testing.assert_close(rewards, torch.stack(given) + rest)


def test_every_library_keeps_the_same_rollout_and_holds_little_else(name: str, tmp_path: Path) -> None:
    # The fake task goes its way whatever the actions are.
    env = FakeEnv(NUM_ENVS)
    expected = []
    for _ in range(PLAN.horizon):
        expected.append(env.observe())
        env.step(torch.zeros(NUM_ENVS, ACTIONS))

    bench = Bench(name, tmp_path)
    # Playing writes no files.
    assert torch.equal(bench.act(), bench.act())
    assert not list(tmp_path.iterdir())

    bench.train(1)
    for group in ("policy", "points"):
        torch.testing.assert_close(stored(bench, group), torch.stack([obs[group] for obs in expected]), rtol=0, atol=0)
    held = {kind: tensor_bytes(holder) for kind, holder in bench.runner.holders().items()}
    assert set(held) == {"rollout storage", "network weights", "optimizer"}
    # Clouds are of float16; vectors, actions and their distribution, and a few numbers of each sample are the rest.
    sample_bytes = NUM_POINTS * 3 * 2 + 4 * (2 + 5 + 3 * ACTIONS + 6)
    assert held["rollout storage"] <= PLAN.horizon * NUM_ENVS * sample_bytes
    # Two moments of each weight; the statistics of normalizers are weights without moments.
    assert 1.5 * held["network weights"] < held["optimizer"] < 2.1 * held["network weights"]


@pytest.mark.parametrize("name", ["rsl_rl", "rl_games", "skrl"])
def test_an_update_holds_the_rollout_and_one_minibatch(name: str, tmp_path: Path) -> None:
    sample_bytes = NUM_POINTS * 3 * 2
    held: list[int] = []

    def held_clouds() -> int:
        """Return the bytes of the clouds of at least a minibatch that are in memory."""
        tensors = [value for value in gc.get_objects() if type(value) is torch.Tensor]
        storages = [tensor.untyped_storage() for tensor in tensors if tensor.dtype is torch.float16]
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
        return sum(size for size in sizes.values() if size >= PLAN.minibatch_size * sample_bytes)

    def note(module: torch.nn.Module, inputs: Any) -> None:
        if isinstance(module, PointNet) and torch.is_grad_enabled():
            held.append(held_clouds() - of_other_tests)

    gc.collect()
    of_other_tests = held_clouds()
    hook = register_module_forward_pre_hook(note)
    try:
        Bench(name, tmp_path).train(2)
    finally:
        hook.remove()
    assert set(held) == {(PLAN.horizon * NUM_ENVS + PLAN.minibatch_size) * sample_bytes}


def test_training_that_is_called_again_reads_the_observations_anew(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    bench.train(1)
    # Other episodes ran in between, and all environments start new ones: at the same place, as the fake does not draw.
    bench.env.reset()
    bench.env.count += 1000
    seen = bench.env.observe()["policy"]
    reset = bench.env.reset
    bench.env.reset = lambda: None
    bench.runner.train(2, go_on)
    bench.env.reset = reset

    torch.testing.assert_close(stored(bench, "policy")[0], seen)


class Clipping(NamedTuple):
    """A library's own parts that take a clipped step."""

    network: Any
    parameters: list[torch.nn.Parameter]
    step: Callable[[], Any]


def clipping(bench: Bench) -> Clipping:
    agent: Any = bench.runner
    agent = agent._agent
    if bench.name == "rl_games":
        network = agent.model.a2c_network
        return Clipping(network, list(agent.model.parameters()), agent.trancate_gradients_and_step)
    if bench.name == "skrl":
        step = partial(agent.scaler.step, agent.optimizer)
        return Clipping(agent.policy, list(agent.policy.parameters()), step)
    return Clipping(agent.policy.network, list(agent.policy.parameters()), agent.policy.optimizer.step)


@pytest.mark.parametrize("name", ["rl_games", "skrl", "sb3"])
def test_a_large_gradient_of_the_critic_leaves_the_actor_alone(name: str, tmp_path: Path) -> None:
    network, parameters, step = clipping(Bench(name, tmp_path))
    actor, critic = network.clipping_groups()
    assert len(actor) + len(critic) == len(parameters)
    for group, value in ((actor, 1e-6), (critic, 1e3)):
        for parameter in group:
            parameter.grad = torch.full_like(parameter, value)
    step()
    assert all(torch.equal(p.grad, torch.full_like(p, 1e-6)) for p in actor if p.grad is not None)
    norm = torch.nn.utils.get_total_norm([p.grad for p in critic if p.grad is not None])
    assert float(norm) == pytest.approx(SETTINGS.max_grad_norm, rel=1e-3)


@pytest.mark.parametrize("name", ["rl_games", "skrl"])
def test_mixed_precision_clips_the_gradient_and_not_its_scaled_copy(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    agent: Any = bench.runner
    agent = agent._agent
    scaler = torch.amp.grad_scaler.GradScaler
    agent.scaler = type(agent.scaler)(agent._clip_gradients, "cpu", True) if name == "skrl" else scaler("cpu")
    agent.scaler.scale(torch.zeros(1))
    scale = agent.scaler.get_scale()
    parameters = clipping(bench).parameters
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, scale * 1e-6)
    clipping(bench).step()
    assert all(torch.allclose(p.grad, torch.full_like(p, 1e-6)) for p in parameters if p.grad is not None)


@pytest.mark.slow
def test_rsl_rl_trains_compiled_networks_as_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Bench("rsl_rl", tmp_path / "a")
    plain.train(1)

    def compiled(settings: ppo.PpoSettings, experiment: str) -> Any:
        cfg = rsl_rl_cfg.make_cfg(settings, experiment)
        cfg.torch_compile_mode = "default"
        return cfg

    monkeypatch.setitem(CONFIGS, "rsl_rl", compiled)
    # Compiles here: a pool would leave its threads behind.
    monkeypatch.setattr(inductor, "compile_threads", 1)
    counters.clear()
    bench = Bench("rsl_rl", tmp_path / "b")
    bench.train(1)
    assert counters["stats"]["unique_graphs"] >= 2
    assert not counters["graph_break"]
    torch.testing.assert_close(bench.act(), plain.act(), rtol=1e-3, atol=1e-3)

    bench.runner.save(tmp_path / "a.pt", {})
    plain.runner.load(tmp_path / "a.pt")
    torch.testing.assert_close(plain.act(), bench.act())


def test_rsl_rl_logs_no_episode_that_was_cut_short_between_two_calls(tmp_path: Path) -> None:
    bench = Bench("rsl_rl", tmp_path)
    for iteration in range(1, 6):
        bench.train(iteration)
    library: Any = bench.runner
    lengths = [length for _, length in library._library.logger.episodes._last]
    assert 0 < max(lengths) <= EPISODE


def test_training_goes_on_with_new_episodes_where_it_is_told_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(name, tmp_path)
    bench.train(1)
    assert bench.env.episode_length_buf.any()
    bench.env.extras = {"log": {"Metrics/success_rate": 0.0}}
    bench.runner.start_new_episodes()
    assert not bench.env.episode_length_buf.any()
    assert not bench.env.extras, "the log of episodes that were cut short"

    set_aside: list[bool] = []

    @contextmanager
    def training_set_aside() -> Iterator[None]:
        yield
        set_aside.append(True)

    monkeypatch.setattr(bench.env, "training_set_aside", training_set_aside, raising=False)
    bench.runner.start_new_episodes()
    assert set_aside


def test_an_error_in_the_callback_passes_through(name: str, tmp_path: Path) -> None:
    def fail(completed: int, metrics: Mapping[str, float]) -> Decision:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Bench(name, tmp_path).runner.train(2, fail)


def test_every_library_learns_from_the_cloud(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path, gamma=0.0, desired_kl=0.02)
    rewards = [metrics["mean_reward"] for _, metrics in bench.train(60)]
    assert rewards[-1] > 0.6 * rewards[5]  # returns are negative


def test_only_the_networks_of_a_learner_may_use_tf32(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(name, tmp_path)
    allowed: dict[str, set[bool]] = {"network": set(), "gradient": set(), "environment": set(), "between": set()}
    matmul = torch.backends.cuda.matmul

    def note(where: str) -> None:
        allowed[where].add(bool(matmul.allow_tf32))

    own_step = bench.env.step
    monkeypatch.setattr(bench.env, "step", lambda actions: (note("environment"), own_step(actions))[1])
    backward = torch.Tensor.backward
    monkeypatch.setattr(torch.Tensor, "backward", lambda *args, **kw: (note("gradient"), backward(*args, **kw))[1])
    hook = register_module_forward_pre_hook(lambda *_: note("network"))

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        note("between")
        return Decision.CONTINUE

    bench.env.reset()
    try:
        bench.runner.train(2, on_iteration)
    finally:
        hook.remove()
    assert allowed == {"network": {True}, "gradient": {True}, "environment": {False}, "between": {False}}
    assert not matmul.allow_tf32

# SPDX-License-Identifier: BSD-3-Clause
"""What every adapter promises, on a fake task."""

import functools
import math
import operator
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch._dynamo.utils import counters
from torch.nn.modules.module import register_module_forward_pre_hook

from benchmarks.host_syncs import HostSyncs
from isaaclab_pc import runners
from isaaclab_pc.agents import ppo, rl_games_cfg, rsl_rl_cfg, sb3_cfg, skrl_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.runners import (
    RUNNERS,
    Adapter,
    Decision,
    Runner,
    agent_key,
    load_adapter,
    policy_groups,
    require_library,
)
from isaaclab_pc.runners.checkpoint_file import load_checkpoint, save_checkpoint
from isaaclab_pc.runners.shared import EpisodeStats, IterationLog, write_metrics
from isaaclab_pc.scaling import BatchPlan
from isaaclab_pc.tensor_bytes import tensor_bytes
from tests.unit.runners.fake_env import ACTIONS, EPISODE, NUM_POINTS, FakeEnv, FakeGymEnv, FakeRlGamesEnv

NUM_ENVS = 4
SETTINGS = replace(
    ppo.REACH,
    max_iterations=9,
    horizon=8,
    samples_per_update=64,
    num_minibatches=2,
    num_epochs=2,
    learning_rate=3e-3,
    actor_hidden=(16,),
    critic_hidden=(16,),
    encoder=ppo.EncoderSettings(point_channels=(8, 16), depth_channels=(4,), depth_latent=8),
)
CONFIGS: dict[str, Callable] = {
    "rsl_rl": rsl_rl_cfg.make_cfg,
    "rl_games": rl_games_cfg.make_cfg,
    "skrl": skrl_cfg.make_cfg,
    "sb3": sb3_cfg.make_cfg,
}
ENVS: dict[str, Callable] = {
    "rsl_rl": lambda env: env,
    "rl_games": FakeRlGamesEnv,
    "skrl": FakeGymEnv,
    "sb3": FakeGymEnv,
}
PLAN = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)


class Bench:
    """One library with a fake environment."""

    def __init__(
        self,
        name: str,
        folder: Path,
        obs: str = "points",
        num_points: int = NUM_POINTS,
        history_length: int = 1,
        **settings: Any,
    ) -> None:
        self.name = name
        self.folder = folder
        self.cfg = CONFIGS[name](replace(SETTINGS, **settings), "x")
        adapter = load_adapter(name)
        adapter.configure(self.cfg, obs=obs, seed=3, max_iterations=None, device="cpu", plan=PLAN, experiment="fake")
        self.env = FakeEnv(NUM_ENVS, obs, num_points, history_length)
        torch.manual_seed(3)
        self.runner: Runner = adapter.make(ENVS[name](self.env), self.cfg, folder, "cpu")

    def train(self, until: int, stop_at: int | None = None) -> list[tuple[int, dict[str, float]]]:
        calls = []

        def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
            calls.append((completed, dict(metrics)))
            return Decision.STOP if completed == stop_at else Decision.CONTINUE

        self.env.reset()
        self.runner.train(until, on_iteration)
        return calls

    def act(self) -> torch.Tensor:
        return self.runner.act(self.env.observe())


@pytest.fixture(params=RUNNERS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_iterations_are_counted_and_measured(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    calls = bench.train(3)
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
    assert any(tmp_path.glob("events.out.tfevents.*"))
    assert not [path for path in tmp_path.rglob("*") if "tfevents" not in path.name]


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


@pytest.mark.parametrize("obs", ["points", "depth"])
def test_a_policy_of_several_frames_is_trained_and_acts_on_each(name: str, obs: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path, obs, history_length=3)
    bench.train(2)
    bench.runner.save(tmp_path / "2.pt", {})
    played = Bench(name, tmp_path / "played", obs, num_points=NUM_POINTS // 2, history_length=3)
    played.runner.load_policy(tmp_path / "2.pt")

    observed = {group: value.float() for group, value in bench.env.observe().items()}
    for runner in (bench.runner, played.runner):
        action = runner.act(observed)
        for age in range(3):
            seen = observed[obs].clone()
            seen[:, age] += 0.1
            assert not torch.allclose(runner.act({**observed, obs: seen}), action), age
    other = Bench(name, tmp_path / "other", obs, history_length=2)
    with pytest.raises(ConfigError, match="observations"):
        other.runner.load_policy(tmp_path / "2.pt")


def test_memory_is_told_by_kind(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    bench.train(1)
    held = {kind: tensor_bytes(holder) for kind, holder in bench.runner.holders().items()}
    points = bench.env.observe()["points"]
    assert set(held) == {"rollout storage", "network weights", "optimizer"}
    assert held["rollout storage"] > PLAN.horizon * points.nbytes
    # Two moments of each weight; the statistics of normalizers are weights without moments.
    assert 1.5 * held["network weights"] < held["optimizer"] < 2.1 * held["network weights"]


def test_stop_ends_after_that_iteration(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    assert len(bench.train(5, stop_at=2)) == 2
    assert [completed for completed, _ in bench.train(4)] == [3, 4]
    assert bench.train(4) == []


def test_training_that_is_called_again_reads_the_observations_anew(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path)
    bench.train(1)
    # Other episodes ran in between, and all environments start new ones: at the same place, as the fake does not draw.
    bench.env.reset()
    bench.env.count += 1000
    seen = bench.env.observe()["policy"]
    reset = bench.env.reset
    bench.env.reset = lambda: None
    bench.runner.train(2, lambda completed, metrics: Decision.CONTINUE)
    bench.env.reset = reset

    storage: Any = bench.runner.holders()["rollout storage"]
    policy = {
        "rsl_rl": lambda: storage.observations["policy"],
        "rl_games": lambda: storage[0]["tensor_dict"]["obses"]["policy"],
        "skrl": lambda: storage["observations/policy"],
        "sb3": lambda: storage["policy"].unflatten(0, (PLAN.horizon, NUM_ENVS)),
    }[name]()
    first = policy[0]
    torch.testing.assert_close(first, seen)


def test_rsl_rl_keeps_clouds_as_float16(tmp_path: Path) -> None:
    bench = Bench("rsl_rl", tmp_path)
    bench.train(1)
    storage: Any = bench.runner.holders()["rollout storage"]
    assert {name: storage.observations[name].dtype for name in ("policy", "points", "critic")} == {
        "policy": torch.float32,
        "points": torch.float16,
        "critic": torch.float32,
    }
    assert storage.observations["points"].nbytes == PLAN.horizon * NUM_ENVS * NUM_POINTS * 3 * 2


def test_several_frames_take_as_many_times_the_memory_and_no_more(name: str, tmp_path: Path) -> None:
    def storage(frames: int) -> int:
        bench = Bench(name, tmp_path / str(frames), history_length=frames)
        bench.train(1)
        return tensor_bytes(bench.runner.holders()["rollout storage"])

    one, two, three = (storage(frames) for frames in (1, 2, 3))
    # A frame of two numbers as float32 and of a cloud as float16. RL-Games keeps the last observation besides.
    frame = NUM_ENVS * (2 * 4 + NUM_POINTS * 3 * 2)
    assert two - one == three - two
    assert PLAN.horizon * frame <= two - one <= (PLAN.horizon + 2) * frame


@pytest.mark.slow
def test_rsl_rl_trains_compiled_networks_as_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Bench("rsl_rl", tmp_path / "a")
    plain.train(1)

    def compiled(settings: ppo.PpoSettings, experiment: str) -> Any:
        cfg = rsl_rl_cfg.make_cfg(settings, experiment)
        cfg.torch_compile_mode = "default"
        return cfg

    monkeypatch.setitem(CONFIGS, "rsl_rl", compiled)
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
    assert 0 < max(library._library.logger.lenbuffer) <= EPISODE


def test_nothing_is_printed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    Bench(name, tmp_path).train(1)
    assert capsys.readouterr().out == ""


def test_an_error_in_the_callback_passes_through(name: str, tmp_path: Path) -> None:
    def fail(completed: int, metrics: Mapping[str, float]) -> Decision:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Bench(name, tmp_path).runner.train(2, fail)


def test_resume_is_the_same_run(name: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "2.pt"
    unbroken = Bench(name, tmp_path / "a", aux_coef=0.5)
    unbroken.train(2)
    unbroken.runner.save(checkpoint, {"task": "fake"})
    rates = [metrics["learning_rate"] for _, metrics in unbroken.train(4)]
    unbroken.runner.save(tmp_path / "a.pt", {})

    resumed = Bench(name, tmp_path / "b", aux_coef=0.5)
    assert not torch.allclose(resumed.act(), unbroken.act())
    header = resumed.runner.load(checkpoint)
    assert (header["task"], header["runner"], header["iteration"]) == ("fake", name, 2)
    assert resumed.runner.completed_iterations == 2
    calls = resumed.train(4)
    assert [completed for completed, _ in calls] == [3, 4]
    assert [metrics["learning_rate"] for _, metrics in calls] == rates
    resumed.runner.save(tmp_path / "b.pt", {})
    a, b = _tensors(tmp_path / "a.pt"), _tensors(tmp_path / "b.pt")
    assert a.keys() == b.keys()
    for key, tensor in a.items():
        assert torch.equal(tensor, b[key]), key
    assert torch.equal(resumed.act(), unbroken.act())


def test_a_policy_acts_from_its_weights_alone(name: str, tmp_path: Path) -> None:
    trained = Bench(name, tmp_path / "a")
    trained.train(2)
    trained.runner.save(tmp_path / "2.pt", {})

    played = Bench(name, tmp_path / "b")
    played.env.count = trained.env.count
    assert played.runner.load_policy(tmp_path / "2.pt")["iteration"] == 2
    torch.testing.assert_close(played.act(), trained.act())
    assert played.runner.completed_iterations == 0


def test_a_policy_acts_on_clouds_of_another_size_and_training_does_not_go_on_with_them(
    name: str, tmp_path: Path
) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    fewer = Bench(name, tmp_path / "b", num_points=NUM_POINTS // 2)
    fewer.runner.load_policy(tmp_path / "a.pt")
    assert fewer.act().shape == (NUM_ENVS, ACTIONS)
    with pytest.raises(ConfigError, match="observations="):
        fewer.runner.load(tmp_path / "a.pt")
    with pytest.raises(ConfigError, match="observations="):
        Bench(name, tmp_path / "c", obs="depth").runner.load_policy(tmp_path / "a.pt")


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    from isaaclab_pc.runners.checkpoint_file import load_checkpoint

    found: dict[str, torch.Tensor] = {}

    def walk(value: Any, where: str) -> None:
        if isinstance(value, torch.Tensor):
            found[where] = value
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{where}.{key}")

    walk(load_checkpoint(path, "cpu")[0], "")
    assert len(found) > 20
    return found


def test_checkpoint_may_be_written_by_the_callback(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path / "a")
    actions = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        bench.runner.save(tmp_path / f"{completed}.pt", {})
        actions.append(bench.act())
        return Decision.CONTINUE

    bench.runner.train(2, on_iteration)
    fresh = Bench(name, tmp_path / "b")
    fresh.env.count = bench.env.count
    assert fresh.runner.load(tmp_path / "2.pt")["iteration"] == 2
    torch.testing.assert_close(fresh.act(), actions[1])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"obs": "depth"}, r"observations=.*points.*observations=.*depth"),
        ({"expected": "lift"}, "task=reach.*task=lift"),
    ],
)
def test_a_checkpoint_of_something_else_changes_nothing(
    name: str, tmp_path: Path, other: dict[str, str], message: str
) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {"task": "reach"})
    bench = Bench(name, tmp_path / "b", other.get("obs", "points"))
    before = bench.act()
    with pytest.raises(ConfigError, match=message):
        bench.runner.load(tmp_path / "a.pt", {"task": other.get("expected", "reach")})
    assert torch.equal(bench.act(), before)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("iteration",), "three"),
        (("rng",), [1, 2]),
        (("rng", "torch"), "noise"),
        (("rng", "numpy"), []),
        (("algorithm", "optimizer"), None),
    ],
)
def test_a_checkpoint_with_values_of_other_types_is_refused(
    name: str, tmp_path: Path, path: tuple[str, ...], value: Any
) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    state, header = load_checkpoint(tmp_path / "a.pt", "cpu")
    parent = functools.reduce(operator.getitem, path[:-1], state)
    key = next(key for key in parent if key.startswith(path[-1]))
    parent[key] = value
    save_checkpoint(tmp_path / "b.pt", state, header)
    with pytest.raises(ConfigError, match=r"b\.pt holds what cannot be restored"):
        Bench(name, tmp_path / "b").runner.load(tmp_path / "b.pt")


def test_a_checkpoint_of_the_other_library_is_refused(tmp_path: Path) -> None:
    Bench("rsl_rl", tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    with pytest.raises(ConfigError, match=r"runner=rsl_rl.*runner=rl_games"):
        Bench("rl_games", tmp_path / "b").runner.load(tmp_path / "a.pt")


def test_clouds_of_another_architecture_are_refused(name: str, tmp_path: Path) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    bench = Bench(name, tmp_path / "b", encoder=ppo.EncoderSettings(point_channels=(8, 20)))
    before = bench.act()
    with pytest.raises(ConfigError, match="other networks"):
        bench.runner.load(tmp_path / "a.pt")
    assert torch.equal(bench.act(), before)


@pytest.mark.parametrize("kind", ["dp3", "pointnet2", "transformer"])
def test_every_encoder_trains_and_refuses_the_weights_of_another(name: str, kind: Any, tmp_path: Path) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    bench = Bench(name, tmp_path / "b", encoder=replace(SETTINGS.encoder, point_encoder=kind, chunk=4))
    with pytest.raises(ConfigError, match=r"other networks: \S+\.encoder\.encoders\.points\.\S+ has shape"):
        bench.runner.load(tmp_path / "a.pt")

    bench.train(1)
    bench.runner.save(tmp_path / "b.pt", {})
    again = Bench(name, tmp_path / "c", encoder=replace(SETTINGS.encoder, point_encoder=kind))
    again.runner.load(tmp_path / "b.pt")
    observed = bench.env.observe()
    torch.testing.assert_close(again.runner.act(observed), bench.runner.act(observed))


def test_every_library_trains_encoders_in_bfloat16_and_their_checkpoints_go_on_in_float32(
    name: str, tmp_path: Path
) -> None:
    half = Bench(name, tmp_path / "a", encoder=replace(SETTINGS.encoder, precision="bf16"))
    first = half.act()
    half.train(1)
    assert not torch.allclose(half.act(), first)
    half.runner.save(tmp_path / "a.pt", {})

    full = Bench(name, tmp_path / "b")
    full.runner.load(tmp_path / "a.pt")
    observed = half.env.observe()
    actions, rounded = full.runner.act(observed), half.runner.act(observed)
    assert not torch.equal(actions, rounded)
    torch.testing.assert_close(actions, rounded, rtol=0, atol=0.02)
    full.train(2)


@pytest.mark.parametrize("obs", ["points", "depth", "state"])
def test_what_the_policy_sees_changes_its_action(name: str, tmp_path: Path, obs: str) -> None:
    bench = Bench(name, tmp_path, obs)
    seen = {name: tensor.float() for name, tensor in bench.env.observe().items()}
    action = bench.runner.act(seen)
    assert action.shape == (NUM_ENVS, ACTIONS)
    for group in seen:
        changed = {**seen, group: seen[group] + torch.randn_like(seen[group])}
        assert torch.allclose(bench.runner.act(changed), action) == (group == "critic"), group


def test_every_library_learns_from_the_cloud(name: str, tmp_path: Path) -> None:
    bench = Bench(name, tmp_path, gamma=0.0, desired_kl=0.02)
    rewards = [metrics["mean_reward"] for _, metrics in bench.train(60)]
    assert rewards[-1] > 0.6 * rewards[5]  # returns are negative


def test_configure_writes_what_the_run_asks_for(name: str) -> None:
    adapter = load_adapter(name)
    cfg = CONFIGS[name](SETTINGS, "x")
    assert adapter.batch_target(cfg) == (64, 32)
    assert adapter.max_iterations(cfg) == 9
    adapter.configure(cfg, obs="state", seed=5, max_iterations=2, device="cpu", plan=PLAN, experiment="fake_state")
    assert adapter.max_iterations(cfg) == 2
    if name == "rsl_rl":
        assert (cfg.seed, cfg.device, cfg.experiment_name) == (5, "cpu", "fake_state")
        assert (cfg.num_steps_per_env, cfg.algorithm.num_mini_batches) == (8, 2)
        assert cfg.obs_groups == {"actor": ["policy"], "critic": ["critic"]}
    elif name == "skrl":
        agent = cfg["agent"]
        assert (cfg["seed"], agent["experiment"]["directory"], cfg["trainer"]["timesteps"]) == (5, "fake_state", 16)
        assert (agent["rollouts"], agent["mini_batches"]) == (8, 2)
        assert cfg["models"]["policy"]["actor"] == ["policy"]
    elif name == "sb3":
        assert (cfg["seed"], cfg["device"]) == (5, "cpu")
        assert (cfg["n_steps"], cfg["n_minibatches"]) == (8, 2)
        assert cfg["policy_kwargs"]["net_arch"]["actor"] == ["policy"]
    else:
        config = cfg["params"]["config"]
        assert (cfg["params"]["seed"], config["device"], config["name"]) == (5, "cpu", "fake_state")
        assert (config["horizon_length"], config["minibatch_size"]) == (8, 16)
        assert cfg["params"]["env"]["obs_groups"]["obs"] == ["policy", "critic"]


def test_without_a_kind_of_observation_the_configured_groups_stay(name: str) -> None:
    cfg: Any = CONFIGS[name](SETTINGS, "x")
    groups = {
        "rsl_rl": lambda: cfg.obs_groups["actor"],
        "rl_games": lambda: cfg["params"]["network"]["actor"],
        "skrl": lambda: cfg["models"]["policy"]["actor"],
        "sb3": lambda: cfg["policy_kwargs"]["net_arch"]["actor"],
    }[name]
    adapter = load_adapter(name)
    for obs, expected in ((None, ["policy", "points"]), ("depth", ["policy", "depth"]), (None, ["policy", "depth"])):
        adapter.configure(cfg, obs=obs, seed=5, max_iterations=None, device="cpu", plan=None, experiment="x")
        assert groups() == expected


def test_an_adapter_keeps_the_protocol_and_names_a_learning_rate_that_exists(name: str) -> None:
    adapter = load_adapter(name)
    assert isinstance(adapter, Adapter)
    assert adapter.name == name
    value: Any = CONFIGS[name](SETTINGS, "x")
    prefix, *fields = adapter.learning_rate_key.split(".")
    assert prefix == "agent"
    for field in fields:
        value = value[field] if isinstance(value, dict) else getattr(value, field)
    assert value == SETTINGS.learning_rate


def test_the_keys_of_agents_are_those_of_isaac_lab(name: str) -> None:
    assert agent_key(name, "default") == f"{name}_cfg_entry_point"
    assert agent_key(name, "large") == f"{name}_large_cfg_entry_point"


def test_the_policy_reads_the_privileged_state_only_where_it_is_told() -> None:
    assert [policy_groups(obs) for obs in ("points", "depth", "state")] == [
        ["policy", "points"],
        ["policy", "depth"],
        ["policy"],
    ]


def test_adapters_know_no_agent() -> None:
    folder = Path(runners.__file__).parent
    assert [file.name for file in folder.glob("*.py") if "isaaclab_pc.agents" in file.read_text()] == []


def test_the_list_of_libraries_loads_none_of_them_and_no_torch() -> None:
    code = (
        "import sys; from isaaclab_pc.runners import RUNNERS, require_library\n"
        "for name in RUNNERS: require_library(name)\n"
        "assert not {'torch', *(library.module for library in RUNNERS.values())} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("check", [load_adapter, require_library])
def test_unknown_runner_names_the_near_one(check: Callable) -> None:
    with pytest.raises(ConfigError, match=r"'rslrl'.*did you mean rsl_rl"):
        check("rslrl")


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        (
            ["rsl_rl"],
            r'runner=rl_games is not installed: pip install "isaaclab_pc\[rl_games\]", or use runner=rsl_rl\.',
        ),
        ([], r'runner=rl_games is not installed: pip install "isaaclab_pc\[rl_games\]"\.'),
    ],
)
def test_a_missing_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, installed: list[str], message: str
) -> None:
    monkeypatch.setattr(runners, "is_installed", lambda module: module in installed)
    for module in installed:
        require_library(module)
    with pytest.raises(ConfigError, match=message):
        require_library("rl_games")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "isaaclab_pc.runners.rl_games", raising=False)
    for module in [module for module in sys.modules if module.partition(".")[0] == "rl_games"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rl_games", None)
    with pytest.raises(ConfigError, match=r'pip install "isaaclab_pc\[rl_games\]"'):
        load_adapter("rl_games")


def test_iteration_log_averages_what_is_finite_and_copies() -> None:
    log = IterationLog()
    entry: dict[str, Any] = {"a": torch.tensor(1.0), "b": math.nan}
    log.add(entry)
    entry["a"] = 3.0
    log.add(entry)
    log.add({"c": torch.tensor([1.0, 2.0])})
    first = log.take_means()
    assert (first["a"], first["c"]) == (2.0, 1.5)
    assert math.isnan(first["b"])
    assert log.take_means() == {}


def test_episode_stats_are_of_whole_episodes_and_read_once() -> None:
    stats = EpisodeStats(2, "cpu")
    rewards = torch.tensor([[1.0, 10.0], [2.0, math.nan], [4.0, 30.0], [8.0, 40.0]])
    ended = torch.tensor([[False, False], [True, True], [False, False], [False, True]])
    for step in range(2):
        stats.add(rewards[step], ended[step])
    mean_return, mean_length = stats.means()
    assert math.isnan(mean_return), "a bad reward is not hidden"
    assert mean_length == 2.0

    stats = EpisodeStats(2, "cpu")
    for step in range(4):
        stats.add(rewards[step].nan_to_num(), ended[step])
    syncs = HostSyncs()
    with syncs:
        assert stats.means() == (pytest.approx((3.0 + 10.0 + 70.0) / 3), 2.0)
    assert syncs.counts.total() <= 2


def test_the_log_has_the_same_tags_with_every_library(name: str, tmp_path: Path) -> None:
    Bench(name, tmp_path).train(2)
    log = EventAccumulator(str(tmp_path))
    log.Reload()
    tags = set(log.Tags()["scalars"])
    assert tags >= {"Train/mean_reward", "Train/mean_episode_length", "Policy/mean_std", "Loss/learning_rate"}
    assert tags >= {"Perf/env_fps", "Perf/inference_fps", "Perf/total_fps"}
    assert tags >= {"Perf/collection_time", "Perf/learning_time", "Memory/host_bytes"}
    for tag in ("Perf/env_fps", "Perf/inference_fps", "Perf/total_fps", "Memory/host_bytes"):
        assert len(log.Scalars(tag)) == 2, tag
    assert log.Scalars("Memory/host_bytes")[-1].value > 1 << 20
    assert tags >= {"Loss/value", "Loss/surrogate", "Loss/entropy"}
    assert tags >= {"Metrics/success_rate", "Guard/state", "Learner/updates", "Learner/skipped_updates"}


def test_the_environments_speed_is_that_of_its_steps_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_step = FakeEnv.step
    seconds = [0.0]

    def step(self: FakeEnv, actions: torch.Tensor) -> Any:
        began = time.perf_counter()
        time.sleep(0.01)
        result = own_step(self, actions)
        seconds[0] += time.perf_counter() - began
        return result

    monkeypatch.setattr(FakeEnv, "step", step)
    bench = Bench(name, tmp_path)
    (_, metrics), *_ = bench.train(1)
    in_env = NUM_ENVS * PLAN.horizon / metrics["Perf/env_fps"]
    assert seconds[0] <= in_env < 1.2 * seconds[0]
    assert math.isclose(metrics["Perf/inference_fps"], NUM_ENVS * PLAN.horizon / metrics["collect_s"], rel_tol=1e-6)


def test_metrics_have_the_tags_of_rsl_rl() -> None:
    tags: dict[str, float] = {}
    writer: Any = SimpleNamespace(add_scalar=lambda tag, value, step: tags.update({tag: value}))
    metrics = {
        "loss/value": 1.0,
        "Perf/total_fps": 2.0,
        "Guard/state": 3.0,
        "success_rate": 0.5,
        "mean_reward": math.nan,
    }
    write_metrics(writer, metrics, 7)
    assert tags == {"Loss/value": 1.0, "Perf/total_fps": 2.0, "Guard/state": 3.0}


def test_episode_stats_forget_what_was_cut_short() -> None:
    stats = EpisodeStats(1, "cpu")
    stats.add(torch.tensor([5.0]), torch.tensor([False]))
    assert all(math.isnan(value) for value in stats.means())
    stats.forget_running()
    stats.add(torch.tensor([1.0]), torch.tensor([True]))
    assert stats.means() == (1.0, 1.0)


def test_iteration_log_reads_all_tensors_at_once() -> None:
    log = IterationLog()
    for step in range(24):
        log.add({"a": torch.tensor(float(step)), "count": torch.tensor(step), "b": torch.arange(3.0), "c": 1})
    syncs = HostSyncs()
    with syncs:
        means = log.take_means()
    assert means == {"a": 11.5, "count": 11.5, "b": 1.0, "c": 1.0}
    assert syncs.counts.total() == 1


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

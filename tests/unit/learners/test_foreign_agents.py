# SPDX-License-Identifier: BSD-3-Clause
"""Agents of other packages, with models of skrl and Stable-Baselines3's own."""

import copy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Decision, Runner, load_adapter
from isaaclab_pc.learners.sb3 import agent as sb3_agent
from isaaclab_pc.learners.skrl import agent as skrl_agent
from tests.unit.learners.bench import NUM_ENVS, check_exports, make_runner, train
from tests.unit.learners.fake_env import FakeEnv

CONFIGS = {"skrl": "skrl_direct_ppo_cfg.yaml", "sb3": "sb3_ppo_cfg.yaml"}
pytestmark = pytest.mark.filterwarnings("ignore:constant_fn")


@pytest.fixture(params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def cartpole(name: str) -> dict[str, Any]:
    """The agent of Isaac Lab's own cart-pole."""
    return yaml.safe_load(files("isaaclab_tasks.core.cartpole.agents").joinpath(CONFIGS[name]).read_text())


def build(name: str, folder: Path, cfg: dict[str, Any] | None = None, env: FakeEnv | None = None) -> Runner:
    env = env or FakeEnv(NUM_ENVS, "state")
    return make_runner(name, copy.deepcopy(cfg or cartpole(name)), env, folder, obs=None, max_iterations=4)


def test_the_usual_number_of_environments_decides_the_batch(name: str) -> None:
    targets = {"skrl": (32 * 4096, 32 * 4096 // 8, 150), "sb3": (16 * 4096, 4096, 15)}
    adapter = load_adapter(name)
    cfg = cartpole(name)
    assert (*adapter.batch_target(cfg), adapter.max_iterations(cfg)) == targets[name]


def test_training_goes_on_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    trained, resumed = (build(name, tmp_path / folder) for folder in ("a", "b"))
    train(trained, 2)
    trained.save(tmp_path / "2.pt", {})
    resumed.load(tmp_path / "2.pt")
    obs = FakeEnv(NUM_ENVS, "state").observe()
    assert torch.equal(resumed.act(obs), trained.act(obs))
    train(resumed, 3)
    assert resumed.completed_iterations == 3
    if name == "skrl":
        networks: Any = trained
        assert networks._networks().keys() == {"model", "observation_preprocessor", "value_preprocessor"}


def test_a_policy_is_exported(name: str, tmp_path: Path) -> None:
    check_exports(lambda env, folder: build(name, folder, env=env), tmp_path)


def test_a_linear_schedule_of_sb3_falls_over_the_run_wherever_it_was_interrupted(tmp_path: Path) -> None:
    trained, resumed = (build("sb3", tmp_path / x, {**cartpole("sb3"), "learning_rate": "lin_3e-4"}) for x in "ab")
    rates: list[float] = []

    def on_iteration(completed: int, metrics: Any) -> Decision:
        rates.append(metrics["learning_rate"])
        return Decision.STOP if completed == 2 else Decision.CONTINUE

    trained.train(4, on_iteration)
    trained.save(tmp_path / "2.pt", {})
    resumed.load(tmp_path / "2.pt")
    resumed.train(4, on_iteration)
    assert rates == pytest.approx([3e-4 * (1 - completed / 4) for completed in range(1, 5)])


@pytest.mark.parametrize(
    ("name", "section", "change", "message"),
    [
        ("skrl", "agent", {"class": "AMP"}, "AMP.*runner=rsl_rl"),
        ("sb3", None, {"normalize_input": True}, r"agent\.normalize_input=false.*runner=rsl_rl"),
    ],
)
def test_agents_that_cannot_be_trained_are_refused(name: str, section: str | None, change: Any, message: str) -> None:
    cfg = cartpole(name)
    (cfg[section] if section else cfg).update(change)
    with pytest.raises(ConfigError, match=message):
        load_adapter(name).batch_target(cfg)


def test_only_known_components_may_be_named_where_skrl_evaluates_text(tmp_path: Path) -> None:
    cfg = cartpole("skrl")
    cfg["agent"]["learning_rate_scheduler"] = "exit()"
    with pytest.raises(ConfigError, match=r"learning_rate_scheduler=exit\(\).*KLAdaptiveLR"):
        build("skrl", tmp_path, cfg)


def test_updates_that_end_early_are_refused_in_several_processes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = cartpole(name)
    field = "kl_threshold" if name == "skrl" else "target_kl"
    (cfg["agent"] if name == "skrl" else cfg)[field] = 0.01
    assert build(name, tmp_path / "one", cfg)
    monkeypatch.setattr(skrl_agent if name == "skrl" else sb3_agent, "world_size", lambda: 2)
    with pytest.raises(ConfigError, match=f"{field}.*gpus=1"):
        build(name, tmp_path / "two", cfg)

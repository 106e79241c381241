# SPDX-License-Identifier: BSD-3-Clause
"""How adapters are found and configured."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc import learners as runners
from isaaclab_pc import packages
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import (
    Adapter,
    agent_key,
    load_adapter,
    policy_groups,
    require_library,
)
from tests.unit.runners.bench import CONFIGS, PLAN, SETTINGS


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
        "import sys; from isaaclab_pc.learners import RUNNERS, require_library\n"
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


def test_a_library_of_another_version_says_which_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isaac Lab's repository brings an RL-Games of its own, of another version."""
    version = packages.metadata.version
    monkeypatch.setattr(packages.metadata, "version", lambda name: "1.6.1" if name == "rl-games" else version(name))
    with pytest.raises(ConfigError, match=r"rl-games 1\.6\.1 is installed, .*1\.6\.5.* is needed: pip install"):
        require_library("rl_games")
    require_library("skrl")


def test_without_metadata_of_this_package_every_version_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise packages.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages.metadata, "version", lambda name: "1.6.1")
    with pytest.raises(ConfigError):
        require_library("rl_games")
    monkeypatch.setattr(packages.metadata, "requires", missing)
    require_library("rl_games")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "isaaclab_pc.learners.rl_games.adapter", raising=False)
    for module in [module for module in sys.modules if module.partition(".")[0] == "rl_games"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rl_games", None)
    with pytest.raises(ConfigError, match=r'pip install "isaaclab_pc\[rl_games\]"'):
        load_adapter("rl_games")

# SPDX-License-Identifier: BSD-3-Clause
"""How adapters are found and configured."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from isaaclab_pc import learners
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import LearnerOptions, load_adapter, require_library
from isaaclab_pc.utils import packages
from tests.unit.learners.bench import CONFIGS, PLAN, SETTINGS

WRITTEN: dict[str, dict[str, Any]] = {
    "rsl_rl": {
        **{"seed": 5, "device": "cpu", "experiment_name": "fake", "max_iterations": 2},
        **{"num_steps_per_env": 8, "algorithm.num_mini_batches": 2, "obs_groups.actor": ["policy"]},
    },
    "rl_games": {
        **{
            "params.seed": 5,
            "params.config.device": "cpu",
            "params.config.name": "fake",
            "params.config.max_epochs": 2,
        },
        **{"params.config.horizon_length": 8, "params.config.minibatch_size": 16},
        **{"params.network.actor": ["policy"], "params.env.obs_groups.obs": ["policy", "critic"]},
    },
    "skrl": {
        **{"seed": 5, "agent.experiment.directory": "fake", "trainer.timesteps": 16},
        **{"agent.rollouts": 8, "agent.mini_batches": 2, "models.policy.actor": ["policy"]},
    },
    "sb3": {
        **{"seed": 5, "device": "cpu", "n_timesteps": 128, "n_steps": 8, "n_minibatches": 2},
        "policy_kwargs.net_arch.actor": ["policy"],
    },
}
"""Fields of each library's configuration after a run's settings were written into it."""


def field(cfg: Any, path: str) -> Any:
    for name in path.split("."):
        cfg = cfg[name] if isinstance(cfg, dict) else getattr(cfg, name)
    return cfg


def test_a_runs_settings_are_written_into_the_configuration(name: str) -> None:
    adapter = load_adapter(name)
    cfg = CONFIGS[name](SETTINGS, "x")
    assert adapter.batch_target(cfg) == (64, 32)
    assert adapter.max_iterations(cfg) == 9
    options = LearnerOptions(obs="state", seed=5, max_iterations=2, device="cpu", plan=PLAN, experiment="fake")
    adapter.configure(cfg, options)
    assert adapter.max_iterations(cfg) == 2
    assert {path: field(cfg, path) for path in WRITTEN[name]} == WRITTEN[name]


def test_without_a_kind_of_observation_the_configured_groups_stay(name: str) -> None:
    cfg: Any = CONFIGS[name](SETTINGS, "x")
    path = next(path for path in WRITTEN[name] if path.endswith("actor"))
    for obs, expected in ((None, ["policy", "points"]), ("depth", ["policy", "depth"]), (None, ["policy", "depth"])):
        load_adapter(name).configure(cfg, LearnerOptions(obs=obs, seed=5, device="cpu", experiment="x"))
        assert field(cfg, path) == expected


def test_an_adapter_names_a_learning_rate_that_exists(name: str) -> None:
    adapter = load_adapter(name)
    assert adapter.name == name
    prefix, _, path = adapter.learning_rate_key.partition(".")
    assert prefix == "agent"
    assert field(CONFIGS[name](SETTINGS, "x"), path) == SETTINGS.learning_rate


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


@pytest.mark.parametrize(("installed", "alternative"), [(["rsl_rl"], r", or use runner=rsl_rl\."), ([], r"\.")])
def test_a_missing_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, installed: list[str], alternative: str
) -> None:
    monkeypatch.setattr(learners, "is_installed", lambda module: module in installed)
    for module in installed:
        require_library(module)
    with pytest.raises(ConfigError, match=r'runner=rl_games .*: pip install "isaaclab_pc\[rl_games\]"' + alternative):
        load_adapter("rl_games")


def test_a_library_of_another_version_says_which_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isaac Lab's repository brings an RL-Games of its own, of another version."""
    version = packages.metadata.version
    monkeypatch.setattr(packages.metadata, "version", lambda name: "1.6.1" if name == "rl-games" else version(name))
    with pytest.raises(ConfigError, match=r"rl-games 1\.6\.1 is installed, .*1\.6\.5.* is needed: pip install"):
        require_library("rl_games")
    require_library("skrl")

    def missing(name: str) -> None:
        raise packages.metadata.PackageNotFoundError(name)

    # Without metadata of this package, every version passes.
    monkeypatch.setattr(packages.metadata, "requires", missing)
    require_library("rl_games")

# SPDX-License-Identifier: BSD-3-Clause
"""How adapters are found and configured, and that every library gets the same hyperparameters."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from isaaclab_pc import learners
from isaaclab_pc.agents import distill, ppo
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import LearnerOptions, load_adapter, require_library
from isaaclab_pc.learners.rsl_rl.cfg import make_distill_cfg
from isaaclab_pc.utils import packages
from isaaclab_pc.workers.overrides import check_overrides
from tests.unit.learners.bench import CONFIGS, PLAN, SETTINGS

WRITTEN: dict[str, dict[str, Any]] = {
    "rsl_rl": {
        **{"seed": 5, "device": "cpu", "max_iterations": 2},
        **{"num_steps_per_env": 8, "algorithm.num_mini_batches": 2, "obs_groups.actor": ["policy"]},
    },
    "rl_games": {
        **{"params.seed": 5, "params.config.device": "cpu"},
        **{"params.config.max_epochs": 2, "params.config.horizon_length": 8, "params.config.minibatch_size": 16},
        **{"params.network.actor": ["policy"], "params.env.obs_groups.obs": ["policy", "critic"]},
    },
    "skrl": {
        **{"seed": 5, "trainer.timesteps": 16},
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
    assert adapter.name == name
    assert field({"agent": cfg}, adapter.learning_rate_key) == SETTINGS.learning_rate
    options = LearnerOptions(obs="state", seed=5, max_iterations=2, device="cpu", plan=PLAN)
    adapter.configure(cfg, options)
    assert adapter.max_iterations(cfg) == 2
    assert {path: field(cfg, path) for path in WRITTEN[name]} == WRITTEN[name]


def test_without_a_kind_of_observation_the_configured_groups_stay(name: str) -> None:
    cfg: Any = CONFIGS[name](SETTINGS, "x")
    path = next(path for path in WRITTEN[name] if path.endswith("actor"))
    for obs, expected in ((None, ["policy", "points"]), ("depth", ["policy", "depth"]), (None, ["policy", "depth"])):
        load_adapter(name).configure(cfg, LearnerOptions(obs=obs, seed=5, device="cpu"))
        assert field(cfg, path) == expected


def test_the_list_of_libraries_loads_none_of_them_and_no_torch() -> None:
    code = (
        "import sys; from isaaclab_pc.learners import RUNNERS, require_library\n"
        "for name in RUNNERS: require_library(name)\n"
        "assert not {'torch', *(library.module for library in RUNNERS.values())} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("check", [load_adapter, require_library])
def test_unknown_runner_names_the_near_one(check: Callable) -> None:
    with pytest.raises(ConfigError, match=r"rslrl.*\brsl_rl\b"):
        check("rslrl")


@pytest.mark.parametrize("installed", [["rsl_rl"], []])
def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, installed: list[str]) -> None:
    monkeypatch.setattr(learners, "is_installed", lambda module: module in installed)
    for module in installed:
        require_library(module)
    with pytest.raises(ConfigError, match=r"isaaclab_pc\[rl_games\]") as refused:
        load_adapter("rl_games")
    assert ("runner=rsl_rl" in str(refused.value)) == bool(installed)


def test_a_library_of_another_version_says_which_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isaac Lab's repository brings an RL-Games of its own, of another version."""
    version = packages.metadata.version
    monkeypatch.setattr(packages.metadata, "version", lambda name: "1.6.1" if name == "rl-games" else version(name))
    with pytest.raises(ConfigError, match=r"1\.6\.1.*1\.6\.5.*isaaclab_pc\[rl_games\]"):
        require_library("rl_games")
    require_library("skrl")

    def missing(name: str) -> None:
        raise packages.metadata.PackageNotFoundError(name)

    # Without metadata of this package, every version passes.
    monkeypatch.setattr(packages.metadata, "requires", missing)
    require_library("rl_games")


AGENT = replace(
    ppo.REACH,
    max_iterations=7,
    horizon=16,
    samples_per_update=512,
    num_minibatches=2,
    num_epochs=3,
    learning_rate=3e-4,
    schedule="fixed",
    desired_kl=0.02,
    gamma=0.9,
    lam=0.8,
    clip=0.1,
    entropy_coef=0.01,
    value_coef=0.5,
    max_grad_norm=0.7,
    aux_coef=0.3,
    init_std=0.6,
    actor_hidden=(32,),
    critic_hidden=(48, 24),
)
ENCODER = AGENT.encoder.to_dict()


def network(path: str) -> dict[str, Any]:
    expected = {
        **{"actor": ["policy", "points"], "critic": ["critic"], "encoder": ENCODER, "init_std": 0.6, "aux_coef": 0.3},
        **{"actor_hidden": [32], "critic_hidden": [48, 24], "activation": "elu"},
    }
    return {f"{path}.{key}": value for key, value in expected.items()}


FIELDS: dict[str, dict[str, Any]] = {
    "rsl_rl": {
        **{"max_iterations": 7, "num_steps_per_env": 16, "samples_per_update": 512, "experiment_name": "name"},
        **{"algorithm.num_mini_batches": 2, "algorithm.num_learning_epochs": 3, "algorithm.learning_rate": 3e-4},
        **{"algorithm.schedule": "fixed", "algorithm.desired_kl": 0.02, "algorithm.gamma": 0.9, "algorithm.lam": 0.8},
        **{"algorithm.clip_param": 0.1, "algorithm.entropy_coef": 0.01, "algorithm.value_loss_coef": 0.5},
        **{"algorithm.max_grad_norm": 0.7, "obs_groups": {"actor": ["policy", "points"], "critic": ["critic"]}},
        **{"actor.hidden_dims": [32], "critic.hidden_dims": [48, 24], "actor.aux_coef": 0.3},
        **{"actor.distribution_cfg.init_std": 0.6, "actor.encoder": ENCODER},
    },
    "rl_games": {
        **{"params.env.obs_groups.obs": ["policy", "points", "critic"], "params.env.concate_obs_groups": False},
        **{"params.config.max_epochs": 7, "params.config.horizon_length": 16, "params.config.samples_per_update": 512},
        **{"params.config.name": "name", "params.config.num_minibatches": 2, "params.config.mini_epochs": 3},
        **{"params.config.minibatch_size_per_env": 8, "params.config.learning_rate": 3e-4},
        **{"params.config.lr_schedule": "fixed", "params.config.kl_threshold": 0.02, "params.config.gamma": 0.9},
        **{"params.config.tau": 0.8, "params.config.e_clip": 0.1, "params.config.entropy_coef": 0.01},
        # RL-Games multiplies the squared error by half of it.
        **{"params.config.critic_coef": 1.0, "params.config.grad_norm": 0.7},
        **network("params.network"),
    },
    "skrl": {
        **{"trainer.timesteps": 7 * 16, "agent.rollouts": 16, "samples_per_update": 512},
        **{"agent.experiment.directory": "name", "agent.mini_batches": 2, "agent.learning_epochs": 3},
        **{"agent.learning_rate": 3e-4, "agent.learning_rate_scheduler": None, "agent.discount_factor": 0.9},
        **{"agent.gae_lambda": 0.8, "agent.entropy_loss_scale": 0.01, "agent.ratio_clip": 0.1, "agent.value_clip": 0.1},
        **{"agent.value_loss_scale": 0.5, "agent.grad_norm_clip": 0.7},
        **network("models.policy"),
    },
    "sb3": {
        **{"n_timesteps": 7 * 512, "n_steps": 16, "samples_per_update": 512, "n_minibatches": 2, "n_epochs": 3},
        **{"learning_rate": 3e-4, "desired_kl": None, "gamma": 0.9, "gae_lambda": 0.8, "ent_coef": 0.01},
        **{"clip_range": 0.1, "clip_range_vf": 0.1, "vf_coef": 0.5, "max_grad_norm": 0.7},
        **network("policy_kwargs.net_arch"),
    },
}


def test_every_library_gets_every_value(name: str) -> None:
    cfg = CONFIGS[name](AGENT, "name")
    assert {path: field(cfg, path) for path in FIELDS[name]} == FIELDS[name]


def test_the_adaptive_schedule_reaches_the_libraries_without_one() -> None:
    adaptive = replace(AGENT, schedule="adaptive")
    agent = CONFIGS["skrl"](adaptive, "name")["agent"]
    assert agent["learning_rate_scheduler"] == "KLAdaptiveLR"
    assert agent["learning_rate_scheduler_kwargs"]["kl_threshold"] == 0.02
    assert CONFIGS["sb3"](adaptive, "name")["desired_kl"] == 0.02


def test_isaac_labs_own_command_gets_minibatches_of_every_size() -> None:
    sizes = {name: CONFIGS["rl_games"](sized, "name") for name, sized in ppo.sizes(ppo.DEFAULT).items()}
    per_env = {name: cfg["params"]["config"]["minibatch_size_per_env"] for name, cfg in sizes.items()}
    assert per_env == {"default": 8, "large": 1}


def test_samples_divide_into_minibatches() -> None:
    with pytest.raises(ValueError, match="num_minibatches=3"):
        replace(AGENT, num_minibatches=3)


def test_a_student_has_no_field_that_imitation_has_no_use_for() -> None:
    cfg = make_distill_cfg(distill.DEFAULT, "name")
    assert cfg.algorithm == distill.DEFAULT.algorithm
    assert cfg.algorithm is not distill.DEFAULT.algorithm
    for override in ("agent.student.aux_coef=0.1", "agent.student.rnn_type=gru"):
        with pytest.raises(ConfigError, match=r"agent\.student"):
            check_overrides({"agent": cfg}, [override])

# SPDX-License-Identifier: BSD-3-Clause
"""Every library gets the same hyperparameters."""

import subprocess
import sys
from dataclasses import replace

import pytest

from isaaclab_pc.agents import distill, ppo, rsl_rl_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.rl_games import cfg as rl_games_cfg
from isaaclab_pc.learners.sb3 import cfg as sb3_cfg
from isaaclab_pc.learners.skrl import cfg as skrl_cfg
from isaaclab_pc.workers.overrides import check_overrides

SETTINGS = replace(
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


def test_rsl_rl_gets_every_value() -> None:
    cfg = rsl_rl_cfg.make_cfg(SETTINGS, "name")
    assert (cfg.max_iterations, cfg.num_steps_per_env, cfg.samples_per_update) == (7, 16, 512)
    assert cfg.experiment_name == "name"
    assert cfg.obs_groups == {"actor": ["policy", "points"], "critic": ["critic"]}
    algorithm = cfg.algorithm
    assert (algorithm.num_mini_batches, algorithm.num_learning_epochs) == (2, 3)
    assert (algorithm.learning_rate, algorithm.schedule, algorithm.desired_kl) == (3e-4, "fixed", 0.02)
    assert (algorithm.gamma, algorithm.lam, algorithm.clip_param, algorithm.entropy_coef) == (0.9, 0.8, 0.1, 0.01)
    assert (algorithm.value_loss_coef, algorithm.max_grad_norm) == (0.5, 0.7)
    actor = cfg.actor.to_dict()  # type: ignore[attr-defined] # configclass adds it
    assert (actor["hidden_dims"], cfg.critic.hidden_dims, actor["aux_coef"]) == ([32], [48, 24], 0.3)
    assert actor["distribution_cfg"]["init_std"] == 0.6
    assert actor["encoder"] == SETTINGS.encoder.to_dict()


def test_rl_games_gets_every_value() -> None:
    params = rl_games_cfg.make_cfg(SETTINGS, "name")["params"]
    config, network = params["config"], params["network"]
    assert (config["max_epochs"], config["horizon_length"], config["samples_per_update"]) == (7, 16, 512)
    assert config["name"] == "name"
    assert params["env"] == {
        "obs_groups": {"obs": ["policy", "points", "critic"], "states": []},
        "concate_obs_groups": False,
    }
    assert (config["num_minibatches"], config["minibatch_size_per_env"], config["mini_epochs"]) == (2, 8, 3)
    assert (config["learning_rate"], config["lr_schedule"], config["kl_threshold"]) == (3e-4, "fixed", 0.02)
    assert (config["gamma"], config["tau"], config["e_clip"], config["entropy_coef"]) == (0.9, 0.8, 0.1, 0.01)
    # RL-Games multiplies the squared error by half of it.
    assert (config["critic_coef"], config["grad_norm"]) == (1.0, 0.7)
    assert (network["actor_hidden"], network["critic_hidden"], network["aux_coef"]) == ([32], [48, 24], 0.3)
    assert network["init_std"] == 0.6
    assert network["encoder"] == SETTINGS.encoder.to_dict()


def test_isaac_labs_own_command_gets_minibatches_of_every_size():
    sizes = {
        name: rl_games_cfg.make_cfg(sized, "name")["params"]["config"] for name, sized in ppo.sizes(ppo.DEFAULT).items()
    }
    assert {name: config["minibatch_size_per_env"] for name, config in sizes.items()} == {"default": 8, "large": 1}


def test_skrl_gets_every_value() -> None:
    cfg = skrl_cfg.make_cfg(SETTINGS, "name")
    agent, policy = cfg["agent"], cfg["models"]["policy"]
    assert (cfg["trainer"]["timesteps"], agent["rollouts"], cfg["samples_per_update"]) == (7 * 16, 16, 512)
    assert agent["experiment"]["directory"] == "name"
    assert (policy["actor"], policy["critic"]) == (["policy", "points"], ["critic"])
    assert (agent["mini_batches"], agent["learning_epochs"]) == (2, 3)
    assert (agent["learning_rate"], agent["learning_rate_scheduler"]) == (3e-4, None)
    assert (agent["discount_factor"], agent["gae_lambda"], agent["entropy_loss_scale"]) == (0.9, 0.8, 0.01)
    assert (agent["ratio_clip"], agent["value_clip"]) == (0.1, 0.1)
    assert (agent["value_loss_scale"], agent["grad_norm_clip"]) == (0.5, 0.7)
    assert (policy["actor_hidden"], policy["critic_hidden"], policy["aux_coef"]) == ([32], [48, 24], 0.3)
    assert policy["init_std"] == 0.6
    assert policy["encoder"] == SETTINGS.encoder.to_dict()

    adaptive = skrl_cfg.make_cfg(replace(SETTINGS, schedule="adaptive"), "name")["agent"]
    assert adaptive["learning_rate_scheduler"] == "KLAdaptiveLR"
    assert adaptive["learning_rate_scheduler_kwargs"]["kl_threshold"] == 0.02


def test_sb3_gets_every_value() -> None:
    cfg = sb3_cfg.make_cfg(SETTINGS, "name")
    assert (cfg["n_timesteps"], cfg["n_steps"], cfg["samples_per_update"]) == (7 * 512, 16, 512)
    assert (cfg["n_minibatches"], cfg["n_epochs"]) == (2, 3)
    assert (cfg["learning_rate"], cfg["desired_kl"]) == (3e-4, None)
    assert (cfg["gamma"], cfg["gae_lambda"], cfg["ent_coef"]) == (0.9, 0.8, 0.01)
    assert (cfg["clip_range"], cfg["clip_range_vf"]) == (0.1, 0.1)
    assert (cfg["vf_coef"], cfg["max_grad_norm"]) == (0.5, 0.7)
    network = cfg["policy_kwargs"]["net_arch"]
    assert (network["actor"], network["critic"]) == (["policy", "points"], ["critic"])
    assert (network["actor_hidden"], network["critic_hidden"], network["aux_coef"]) == ([32], [48, 24], 0.3)
    assert network["init_std"] == 0.6
    assert network["encoder"] == SETTINGS.encoder.to_dict()

    assert sb3_cfg.make_cfg(replace(SETTINGS, schedule="adaptive"), "name")["desired_kl"] == 0.02


def test_an_agent_has_its_own_settings_in_two_sizes() -> None:
    assert ppo.find_agent("reach") is ppo.REACH
    assert ppo.find_agent("default") is ppo.DEFAULT
    sizes = ppo.sizes(ppo.REACH)
    assert list(sizes) == ["default", "large"]
    assert sizes["default"] == ppo.REACH
    assert sizes["large"].samples_per_update > ppo.REACH.samples_per_update
    assert sizes["large"].minibatch_size <= 2 * ppo.REACH.minibatch_size
    assert sizes["large"].max_iterations == ppo.REACH.max_iterations


def test_a_wrong_name_fails_and_shows_the_near_ones() -> None:
    with pytest.raises(ConfigError, match=r"'rech'.*did you mean reach\?"):
        ppo.find_agent("rech")
    for module in (rsl_rl_cfg, rl_games_cfg, skrl_cfg, sb3_cfg):
        assert not hasattr(module, "rech")


def test_samples_divide_into_minibatches() -> None:
    with pytest.raises(ValueError, match="num_minibatches=3"):
        replace(SETTINGS, num_minibatches=3)


def test_settings_load_no_torch() -> None:
    code = "import sys, isaaclab_pc.agents.ppo; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_student_has_no_field_that_imitation_has_no_use_for() -> None:
    cfg = rsl_rl_cfg.make_distill_cfg(distill.DEFAULT, "name")
    for override in ("agent.student.aux_coef=0.1", "agent.student.rnn_type=gru"):
        with pytest.raises(ConfigError, match=r"agent\.student has no field"):
            check_overrides({"agent": cfg}, [override])

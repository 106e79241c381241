# SPDX-License-Identifier: BSD-3-Clause
"""Resolving configs: Isaac Lab is imported, no simulator is started."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from isaaclab_pc.assets import franka
from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG
from isaaclab_pc.envs.arm_control import arm_action_size
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.physics import PRESETS
from isaaclab_pc.workers.session import open_env, resolve


def resolved(*settings, num_envs=8, env=(), agent=()):
    config = compose(["device=cpu", "physics=newton_mjwarp", *settings])
    config["env_overrides"], config["agent_overrides"] = list(env), list(agent)
    return resolve(config, num_envs, "reach")


def test_settings_reach_the_tasks_config():
    result = resolved(
        "seed=7",
        "points.num_points=32",
        "points.crop=[[0,1],[-1,1],[0.1,0.5]]",
        "points.frame=env",
        "points.dtype=float32",
        "points.remove_robot=false",
        "reward=sparse",
        "guard.max_abs=50",
        "guard.mode=disabled",
        "physics.dt=0.01111111111",
        "physics.substeps=3",
        num_envs=12,
    )
    cfg = result.env_cfg
    assert (cfg.scene.num_envs, cfg.seed, cfg.sim.device) == (12, 7, "cpu")
    assert (cfg.scene.points.num_points, cfg.scene.points.frame, cfg.scene.points.dtype) == (32, "env", "float32")
    assert (cfg.scene.points.crop_lower, cfg.scene.points.crop_upper) == ((0, -1, 0.1), (1, 1, 0.5))
    assert "robot" not in cfg.scene.points.remove
    assert cfg.reward == "sparse"
    assert (cfg.guard.mode, cfg.guard.max_abs) == ("disabled", 50)
    assert cfg.sim.dt == pytest.approx(1 / 90)
    assert cfg.decimation == 3, "the control rate stays"
    assert cfg.sim.physics.num_substeps == 3
    assert result.backend == "newton_mjwarp"


def test_overrides_reach_the_field_that_they_name_physics_presets_included():
    result = resolved(
        env=["env.episode_length_s=4", "env.sim.physics.solver_cfg.iterations=7"],
        agent=["agent.algorithm.gamma=0.9"],
    )
    assert result.env_cfg.episode_length_s == 4
    assert result.env_cfg.sim.physics.solver_cfg.iterations == 7
    assert result.agent_cfg.algorithm.gamma == 0.9


def test_the_reward_is_the_tasks_own_unless_it_is_set():
    assert resolved().env_cfg.reward == "dense"
    assert resolved(env=["env.reward=sparse"]).env_cfg.reward == "sparse"
    assert resolved("reward=dense", env=["env.reward=sparse"]).env_cfg.reward == "dense"


def test_a_preset_fills_in_what_was_not_given():
    result = resolved("physics.preset=robust", "physics.position_iterations=3")
    values = PRESETS["newton_mjwarp"]["robust"]
    assert result.env_cfg.sim.physics.num_substeps == values["substeps"]
    assert result.env_cfg.sim.physics.solver_cfg.iterations == 3


def test_a_preset_never_replaces_an_override_silently():
    with pytest.raises(ConfigError, match=r"num_substeps=2 and physics.preset=robust.*physics.substeps"):
        resolved("physics.preset=robust", env=["env.sim.physics.num_substeps=2"])


@pytest.mark.parametrize("runner", ["rsl_rl", "rl_games"])
def test_every_number_of_environments_keeps_the_samples_per_update(runner):
    plans = [resolved(f"runner={runner}", num_envs=number).plan for number in (64, 128)]
    assert plans[0].samples_per_update == plans[1].samples_per_update
    assert plans[0].horizon == 2 * plans[1].horizon


def test_the_number_of_iterations_is_the_agents_or_the_users():
    assert resolved().max_iterations > 10
    assert resolved("max_iterations=3").max_iterations == 3


def test_two_runs_share_no_config():
    first, second = resolved(), resolved()
    first.env_cfg.scene.num_envs = 99
    first.env_cfg.scene.points.num_points = 99
    first.agent_cfg.algorithm.gamma = 0.0
    assert second.env_cfg.scene.num_envs == 8
    assert second.env_cfg.scene.points.num_points != 99
    assert second.agent_cfg.algorithm.gamma != 0.0
    assert resolved().agent_cfg.algorithm.gamma != 0.0


@pytest.mark.parametrize(
    ("settings", "env", "agent", "message"),
    [
        (["points.num_points=100000"], [], [], r"1728 pixels of the cameras"),
        (["obs=state", "points.num_points=100000"], [], [], None),
        ([], ["env.scene.camra.width=3"], [], r"env\.scene has no field camra: did you mean camera\?"),
        ([], [], ["agent.algorithm.gama=1"], r"agent\.algorithm has no field gama: did you mean gamma"),
        ([], ["env.action=tool_poze"], [], r"env\.action=tool_poze is unknown: did you mean tool_pose"),
        ([], ["env.reward=spars"], [], r"env\.reward=spars is unknown: did you mean sparse"),
        ([], ["env.decimation=fast"], [], r"expected a whole number, like the present"),
        (["physics.velocity_iterations=1"], [], [], r"physics\.velocity_iterations does not exist on newton_mjwarp"),
        (["device=cuda:99"], [], [], r"device=cuda:99: torch sees \d+ GPUs here"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_simulator_starts(settings, env, agent, message):
    if message is None:
        assert resolved(*settings, env=env, agent=agent).env_cfg.obs == "state"
        return
    with pytest.raises(ConfigError, match=message):
        resolved(*settings, env=env, agent=agent)


def test_the_robot_of_meshes_is_isaac_labs_own(monkeypatch):
    monkeypatch.setattr(franka, "_is_reachable", lambda path: True)
    robot = resolved("robot=franka_nucleus").env_cfg.scene.robot
    assert robot.spawn.usd_path.startswith("http")
    assert robot.prim_path == resolved().env_cfg.scene.robot.prim_path


@pytest.mark.parametrize(("task", "size"), [("reach", 6), ("push", 7), ("lift", 7)])
def test_another_arm_brings_its_names_its_gripper_and_its_number_of_joints(task, size):
    cfg = resolved(f"task={task}", "robot=ur5e", env=["env.action=joint_delta"]).env_cfg
    robot = cfg.scene.robot
    assert robot.prim_path == resolved(f"task={task}").env_cfg.scene.robot.prim_path
    assert (robot.hand, robot.tcp_offset) == (UR5E_GRIPPER_CFG.hand, UR5E_GRIPPER_CFG.tcp_offset)
    assert arm_action_size(cfg) + int(cfg.gripper) == size
    points = cfg.scene.points
    assert (points.gripper_body, points.gripper_offset) == (robot.hand, (0.0, 0.0, robot.tcp_offset))
    assert arm_action_size(resolved("task=lift", env=["env.action=joint_delta"]).env_cfg) == 7


def test_another_arm_is_refused_where_the_task_was_not_tried_with_it():
    with pytest.raises(ConfigError, match=r"robot=ur5e: \S+ was tried with franka only.*robots=\['franka','ur5e'\]"):
        resolved("task=stack", "robot=ur5e")
    tried = resolved("task=stack", "robot=ur5e", env=["env.robots=['franka','ur5e']"]).env_cfg
    assert tried.scene.robot.hand == UR5E_GRIPPER_CFG.hand


def test_another_arm_never_replaces_an_override_silently():
    with pytest.raises(ConfigError, match=r"tcp_offset=0\.1 and robot=ur5e set the same field"):
        resolved("task=lift", "robot=ur5e", env=["env.scene.robot.tcp_offset=0.1"])
    assert resolved("task=lift", env=["env.scene.robot.tcp_offset=0.1"]).env_cfg.scene.robot.tcp_offset == 0.1


def test_settings_of_our_tasks_are_refused_for_tasks_of_other_packages():
    with pytest.raises(ConfigError, match=r"points\.num_points cannot be set"):
        resolved("task=Isaac-Cartpole-Direct", "points.num_points=3")


@pytest.mark.parametrize(
    ("setting", "names", "headless"),
    [("null", None, True), ("viser", ["viser"], True), ("[viser,kit]", ["viser", "kit"], False)],
)
def test_visualizers_reach_isaac_labs_launcher(monkeypatch, setting, names, headless):
    import gymnasium
    import isaaclab.app

    given = []

    @contextmanager
    def launch(cfg, arguments):
        given.append(arguments)
        yield

    monkeypatch.setattr(isaaclab.app, "launch_simulation", launch)
    monkeypatch.setattr(gymnasium, "make", lambda task, cfg: SimpleNamespace(close=lambda: None))
    with open_env(resolved(f"visualizer={setting}")):
        assert given == [{"device": "cpu", "headless": headless, "visualizer": names}]


def test_a_missing_agent_names_what_there_is():
    with pytest.raises(ConfigError, match="has no agent for runner=rsl_rl agent=large: it registers"):
        resolved("task=Isaac-Cartpole-Direct", "agent=large")

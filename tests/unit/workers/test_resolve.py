# SPDX-License-Identifier: BSD-3-Clause
"""Resolving configs: Isaac Lab is imported, no simulator is started."""

import re
import subprocess
import sys
from importlib.resources import files

import gymnasium
import pytest
import torch
import yaml
from gymnasium.envs.registration import EnvSpec

from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.envs.arm_control import arm_action_size
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.physics.apply import PRESETS
from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg
from isaaclab_pc.workers import resolve as resolving
from isaaclab_pc.workers.overrides import _BOUNDS, _SET_ELSEWHERE, _fields
from isaaclab_pc.workers.resolve import resolve

CARTPOLE = "task=Isaac-Cartpole-Direct"
STEREO = "points.realism=stereo"
REALISM = "env.scene.points.realism"
ENCODER = "agent.actor.encoder.point_encoder"


def resolved(*settings, num_envs=8):
    """Resolve a run with these settings and overrides."""
    env, agent = ([text for text in settings if text.startswith(part)] for part in ("env.", "agent."))
    others = [text for text in settings if text not in env + agent]
    return resolve(compose(["device=cpu", "physics=newton_mjwarp", *others], env, agent), num_envs)


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
    assert result.settings.physics.backend == "newton_mjwarp"


@pytest.mark.parametrize(
    ("settings", "crop_frame"),
    [
        ([], None),
        (["points.frame=camera"], "gripper"),
        (["points.crop=[[0,1],[-1,1],[0.1,0.5]]"], "env"),
        (["points.frame=camera", "points.crop=[[0,1],[-1,1],[0.1,0.5]]"], "env"),
    ],
)
def test_another_frame_of_the_points_leaves_the_workspace_where_it_is(settings: list[str], crop_frame: str | None):
    cfg = resolved(*settings, "env.scene.points.crop_frame=null").env_cfg
    assert cfg.scene.points.crop_frame == crop_frame


@pytest.mark.parametrize("key", ["agent.actor.class_name", "agent.algorithm.class_name", "env.scene.table.spawn.func"])
def test_no_setting_imports_a_module(key, tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"^{key}=stranger:Thing: .*new_task"):
        resolved(f"{key}=stranger:Thing")


def test_overrides_reach_the_field_that_they_name_physics_presets_included():
    iterations = "env.sim.physics.solver_cfg.iterations=7"
    result = resolved("env.episode_length_s=4", iterations, "agent.algorithm.gamma=0.9")
    assert result.env_cfg.episode_length_s == 4
    assert result.env_cfg.sim.physics.solver_cfg.iterations == 7
    assert result.agent_cfg.algorithm.gamma == 0.9


def test_single_errors_of_a_camera_are_set_after_the_camera_itself():
    overrides = [f"{REALISM}.flying_pixels=0", f"{REALISM}.dropout=[0,0.1]", f"{REALISM}.noise.scale=2"]
    result = resolved("points.realism=structured_light", *overrides).env_cfg.scene.points.realism
    assert (result.flying_pixels, result.dropout, result.noise.scale) == (0, [0, 0.1], 2)
    assert (result.min_range, result.latency) == (0.4, (0, 1))
    assert resolved(STEREO, f"{REALISM}.noise=null").env_cfg.scene.points.realism.noise is None
    overrides = [f"{REALISM}.dropout=0.5", f"{REALISM}.noise.lateral_std=2"]
    structured, stereo = resolved("points.realism=mixed", *overrides).env_cfg.scene.points.realism
    assert (structured.min_range, structured.dropout) == (0.4, 0.5)
    assert (stereo.min_range, stereo.dropout, stereo.noise.lateral_std) == (0.17, 0.5, 2)
    *cameras, none = resolved("points.realism=mixed_with_none", *overrides).env_cfg.scene.points.realism
    assert [camera.dropout for camera in cameras] == [0.5, 0.5]
    assert none == DepthRealismCfg()


def test_sim2real_is_for_fields_that_may_still_be_given():
    env_cfg = resolved("sim2real=true", "env.history_length=1").env_cfg
    assert (env_cfg.randomization, env_cfg.history_length) == ("hard", 1)
    assert [one.min_range for one in env_cfg.scene.points.realism] == [0.4, 0.17]


def test_the_reward_is_the_tasks_own_unless_it_is_set():
    assert resolved().env_cfg.reward == "dense"
    assert resolved("env.reward=sparse").env_cfg.reward == "sparse"
    assert resolved("reward=dense", "env.reward=sparse").env_cfg.reward == "dense"


def test_a_preset_fills_in_what_was_not_given():
    result = resolved("physics.preset=robust", "physics.position_iterations=3")
    values = PRESETS["newton_mjwarp"]["robust"]
    assert result.env_cfg.sim.physics.num_substeps == values["substeps"]
    assert result.env_cfg.sim.physics.solver_cfg.iterations == 3


@pytest.mark.parametrize("runner", RUNNERS)
def test_every_number_of_environments_keeps_the_samples_per_update(runner):
    plans = [resolved(f"runner={runner}", num_envs=number).plan for number in (64, 128)]
    assert plans[0].samples_per_update == plans[1].samples_per_update
    assert plans[0].horizon == 2 * plans[1].horizon


@pytest.mark.parametrize("how", [["algorithm=distill"], *([f"runner={runner}", "algorithm=ppo"] for runner in RUNNERS)])
def test_encoder_and_chunk_reach_the_agent_of_every_library(how):
    for given, kind, chunk in ((["encoder=dp3", "chunk=128"], "dp3", 128), ([], "pointnet", "auto")):
        config = resolved("task=lift", *how, *given).agent_cfg
        assert {encoder["point_encoder"] for encoder in resolving._parts_with("point_encoder", config)} == {kind}
        assert {encoder["chunk"] for encoder in resolving._parts_with("chunk", config)} == {chunk}


def test_a_memory_is_asked_for_and_sized():
    result = resolved("recurrent=gru", "agent.actor.rnn_hidden_dim=32", num_envs=6)
    assert (result.agent_cfg.actor.rnn_type, result.agent_cfg.actor.rnn_hidden_dim) == ("gru", 32)
    assert 6 % result.plan.num_minibatches == 0, "a minibatch has whole environments"
    assert resolved().agent_cfg.actor.rnn_type is None

    params = resolved("runner=rl_games", "recurrent=lstm").agent_cfg["params"]
    assert params["network"]["rnn_type"] == "lstm"
    assert params["config"]["seq_length"] == params["config"]["horizon_length"]


def test_the_number_of_iterations_is_the_agents_or_the_users():
    assert resolved().max_iterations > 10
    assert resolved("max_iterations=3").max_iterations == 3


def test_a_student_of_depth_images_learns_for_longer():
    depth = ["task=lift", "algorithm=distill", "obs=depth"]
    assert resolved(*depth).max_iterations > resolved(*depth[:2]).max_iterations
    assert resolved(*depth, "max_iterations=3").max_iterations == 3
    assert resolved(*depth, "agent.max_iterations=4").max_iterations == 4
    ppo = ["task=lift", "algorithm=ppo"]
    assert resolved(*ppo, "obs=depth").max_iterations == resolved(*ppo).max_iterations


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
    ("settings", "message"),
    [
        (["points.num_points=400000"], r"num_points=400000 .* 307200 "),
        (["agent.algorithm.gama=1"], r"^agent\.algorithm\.gama: .* gamma\?"),
        (["runner=skrl", "agent.algorithm.gamma=0.9"], r"runner=rsl_rl"),
        (["runner=sb3", "agent.algorithm.gamma=0.9"], r"runner=rsl_rl"),
        (["agent.n_epochs=3"], r"runner=sb3"),
        (["runner=sb3", "agent.gamma=1.5"], r"^agent\.gamma=1\.5: "),
        (["env.action=tool_poze"], r"env\.action=tool_poze .* tool_pose"),
        (["obs=state", "env.history_length=2"], r"^env\.history_length=2 with obs=state"),
        (["agent.device=cpu"], r"^agent\.device=cpu .* device "),
        (["encoder=dp3", "obs=depth"], r"^encoder=dp3: obs=depth"),
        ([CARTPOLE, "recurrent=gru"], r"^recurrent=gru: .* Isaac-Cartpole"),
        (["encoder=dp3", f"{ENCODER}=pointnet"], rf"^encoder=dp3 and {ENCODER}=pointnet"),
        (["obs=depth", STEREO], r"^points\.realism=stereo with obs=depth"),
        (["obs=depth", "env.scene.camera.width=32"], r"camera\.width=32 with obs=depth: .*env\.depth_size"),
        ([f"{REALISM}.dropout=0.1"], rf"^{REALISM}\.dropout=0\.1: .* points\.realism="),
        ([STEREO, f"{REALISM}.flying=0"], rf"^{REALISM}\.flying: .* flying_pixels\?"),
        ([STEREO, f"{REALISM}.noise.scales.x=0"], r"^env\..*noise\.scales\.x: "),
        ([STEREO, f"{REALISM}.noise=here:Noise"], rf"^{REALISM}\.noise='here:Noise' "),
        ([STEREO, f"{REALISM}.dropout=2"], rf"^{REALISM}\.dropout=2 "),
        (["physics.velocity_iterations=1"], r"^physics\.velocity_iterations .* newton_mjwarp"),
        # Settings that would silently replace an override.
        (["physics.preset=robust", "env.sim.physics.num_substeps=2"], r"num_substeps=2 .*=robust.*physics\.substeps"),
        (["task=lift", "robot=ur5e", "env.scene.robot.tcp_offset=0.1"], r"tcp_offset=0\.1 .*robot=ur5e"),
        (["task=stack", "robot=ur5e"], r"^robot=ur5e: .*robots=\['franka','ur5e'\]"),
        # Tasks of other packages.
        ([CARTPOLE, "points.num_points=3"], r"^Isaac-Cartpole-Direct .*points\.num_points"),
        ([CARTPOLE, "robot=ur5e"], r"^Isaac-Cartpole-Direct .*robot"),
        ([CARTPOLE, "obs=depth"], r"^Isaac-Cartpole-Direct .*obs"),
        ([CARTPOLE, f"{REALISM}.dropout=0.1"], rf"^Isaac-Cartpole-Direct .*{REALISM}\.dropout=0\.1"),
        ([CARTPOLE, "guard.max_abs=-1"], r"guard\.max_abs"),
        ([CARTPOLE, "agent=large"], r"runner=rsl_rl agent=large algorithm=ppo: .*rsl_rl_cfg_entry_point"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_simulator_starts(settings, message):
    with pytest.raises(ConfigError, match=message):
        resolved(*settings)


def test_without_clouds_their_settings_are_no_matter():
    assert resolved("obs=state", "points.num_points=100000").env_cfg.obs == "state"


def test_a_task_of_another_package_is_guarded_as_set():
    guard = resolved(CARTPOLE, "guard.mode=raise", "guard.ends=truncated", "guard.max_abs=50").guard
    assert guard is not None
    assert (guard.mode, guard.ends, guard.max_abs) == ("raise", "truncated", 50)

    guard = resolved("task=Isaac-Cartpole").guard
    assert guard is not None
    assert guard.mode == "quarantine"
    assert guard.bounds("observation") == (-1e6, 1e6), "large numbers in unknown units are no fault"
    assert resolved("guard.max_abs=50").guard is None, "our tasks bring their own"


@pytest.mark.parametrize(
    ("count", "built_for", "driver", "reason"),
    [
        (2, "13.0", None, " 2 GPUs"),
        (0, "13.0", ("470.1", "11.4"), r" CUDA 13\.0, .* 470\.1 .* CUDA .* 11\.4\."),
        (0, None, ("470.1", "11.4"), r" CPU, .* 470\.1 "),
        (0, "13.0", None, r" CUDA 13\.0, .* no "),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_refused_with_the_reason(monkeypatch, count, built_for, driver, reason):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(resolving, "driver_versions", lambda: driver)
    with pytest.raises(ConfigError, match=rf"^device=cuda:{count}: .*{reason}"):
        resolved(f"device=cuda:{count}")


RESOLVE_ALL = """
import sys
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.workers.resolve import resolve

for backend in ("newton_mjwarp", "ovphysx"):
    for task in our_tasks():
        settings = [f"task={task}", f"physics={backend}", "device=cpu", "physics.position_iterations=20"]
        resolve(compose(settings), 8)
        assert "pxr" not in sys.modules, f"{task} on {backend} loads USD"
"""


def test_no_task_loads_usd_before_kit_could_have_started():
    done = subprocess.run([sys.executable, "-c", RESOLVE_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_minibatch_may_be_as_large_as_an_update_and_no_larger(runner):
    with pytest.raises(ConfigError) as refusal:
        resolved(f"runner={runner}", "minibatch_size=100000000")
    found = re.match(r"minibatch_size=100000000 \D*(\d+) ", str(refusal.value))
    assert found
    most = int(found[1])
    assert resolved(f"runner={runner}", f"minibatch_size={most}").plan.num_minibatches == 1
    with pytest.raises(ConfigError, match=f"^minibatch_size={most + 1} .* {most} "):
        resolved(f"runner={runner}", f"minibatch_size={most + 1}")


@pytest.mark.parametrize("task", sorted(our_tasks()))
def test_the_camera_of_every_task_sees_the_middle_of_its_workspace(task):
    assert resolved(f"task={task}", "points.crop=[[0.4,0.6],[-0.1,0.1],[0,0.2]]").env_cfg.scene.points.crop_upper


def dotted_names(value, prefix):
    """Every field of a config, and of those within it."""
    found = {prefix}
    for name, part in _fields(value).items():
        found |= dotted_names(part, f"{prefix}.{name}")
    return found


def test_every_bound_is_that_of_a_field_which_some_task_or_agent_has():
    known = set()
    for task in our_tasks():
        known |= dotted_names(resolved(f"task={task}").env_cfg, "env")
    for runner in RUNNERS:
        for obs in ("points", "depth", "state"):
            known |= dotted_names(resolved(f"runner={runner}", f"obs={obs}").agent_cfg, "agent")
    known |= dotted_names(resolved("algorithm=distill").agent_cfg, "agent")
    known |= dotted_names(resolved("init=pretrained").agent_cfg, "agent")
    # Isaac Lab's own agents have some that ours have not.
    foreign = files("isaaclab_tasks").joinpath("contrib/lift/config/franka/agents/sb3_ppo_cfg.yaml")
    known |= {f"agent.{name}" for name in yaml.safe_load(foreign.read_text(encoding="utf-8"))}
    assert [pattern for pattern in _BOUNDS if not any(re.fullmatch(pattern, key) for key in known)] == []
    assert [key for key in _SET_ELSEWHERE if key not in known] == []


@pytest.mark.parametrize(("task", "size"), [("reach", 6), ("push", 7), ("lift", 7)])
def test_another_arm_brings_its_names_its_gripper_and_its_number_of_joints(task, size):
    cfg = resolved(f"task={task}", "robot=ur5e", "env.action=joint_delta").env_cfg
    robot = cfg.scene.robot
    assert robot.prim_path == resolved(f"task={task}").env_cfg.scene.robot.prim_path
    assert (robot.hand, robot.tcp_offset) == (UR5E_GRIPPER_CFG.hand, UR5E_GRIPPER_CFG.tcp_offset)
    assert arm_action_size(cfg) + int(cfg.gripper) == size
    points = cfg.scene.points
    assert (points.gripper_body, points.gripper_offset) == (robot.hand, (0.0, 0.0, robot.tcp_offset))


def test_the_robot_can_be_changed_and_tried_where_it_was_not():
    franka = resolved("task=lift", "env.action=joint_delta", "env.scene.robot.tcp_offset=0.1").env_cfg
    assert (arm_action_size(franka), franka.scene.robot.tcp_offset) == (7, 0.1)
    tried = resolved("task=stack", "robot=ur5e", "env.robots=['franka','ur5e']").env_cfg
    assert tried.scene.robot.hand == UR5E_GRIPPER_CFG.hand


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise SystemExit('licence')", "SystemExit: licence"),
        ("import not_installed_anywhere", "ModuleNotFoundError: .*not_installed_anywhere"),
        ("def", "SyntaxError: "),
    ],
)
def test_a_task_whose_config_cannot_be_imported_is_named_with_the_error(tmp_path, monkeypatch, code, error):
    (tmp_path / "broken_cfg.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    cfg = {"env_cfg_entry_point": "broken_cfg:Cfg", "rsl_rl_cfg_entry_point": "broken_cfg:Agent"}
    monkeypatch.setitem(gymnasium.registry, "Own-Broken", EnvSpec("Own-Broken", "broken_env:Env", kwargs=cfg))
    settings = compose(["device=cpu", "algorithm=ppo"]).with_values({"task": "Own-Broken"})
    with pytest.raises(ConfigError, match=f"^Own-Broken .*: {error}"):
        resolve(settings, 8)

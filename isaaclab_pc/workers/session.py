# SPDX-License-Identifier: BSD-3-Clause
"""From one config file to a running environment and its runner; used by every child process."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab_pc.assets.robots import DEFAULT_ROBOT, ROBOTS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.platform import check_isaaclab
from isaaclab_pc.launch.settings import flatten
from isaaclab_pc.launch.visualizers import visualizer_names
from isaaclab_pc.physics import PhysicsSettings, apply_physics, resolve_backend
from isaaclab_pc.physics.settings import check_time_steps
from isaaclab_pc.runners import Runner, load_adapter, make_runner
from isaaclab_pc.scaling import BatchPlan, plan_batch
from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.preflight import check_run
from isaaclab_pc.workers.overrides import check_overrides

if TYPE_CHECKING:
    from isaaclab_pc.guards import GuardCfg
    from isaaclab_pc.workers.probe_watch import ProbeWatch

__all__ = ["Resolved", "Session", "open_env", "open_session", "record_faults", "resolve"]

_SET_BY_PRESETS = ("env.sim.dt", "env.sim.physics.num_substeps", "env.sim.physics.solver_cfg.iterations")

_SET_BY_ROBOT = ("env.scene.robot.", "env.scene.points.gripper_")

_FOREIGN_MAX_ABS = 1e6
"""Largest magnitude that is no fault in tasks of other packages; contact forces and summed rewards may be large."""


@dataclass
class Resolved:
    """What a run is made of, before a simulator starts."""

    task: str
    """Gym id."""

    env_cfg: Any
    """The task's config, every setting applied."""

    agent_cfg: Any
    """The learning library's config, every setting applied."""

    adapter: Any
    """The runner's adapter, a module of :mod:`isaaclab_pc.runners`."""

    plan: BatchPlan
    """Horizon and minibatches for this number of environments."""

    backend: str
    """Physics backend that will run."""

    device: str
    """Device that will run it."""

    max_iterations: int
    """The run's last iteration."""

    guard: GuardCfg | None = None
    """What guards an environment that has no guard of its own."""

    visualizers: tuple[str, ...] = ()
    """Isaac Lab's visualizers that show it."""


@dataclass
class Session:
    """A running environment and its runner."""

    resolved: Resolved
    """What they were made from."""

    env: Any
    """The gym environment."""

    runner: Runner
    """The adapter around the learning library."""

    build_s: float
    """Time that building environment and runner took [s]."""

    warnings: list[str] = field(default_factory=list)
    """What the preflight found that does not keep it from running."""


def resolve(config: Mapping[str, Any], num_envs: int, experiment: str) -> Resolved:
    """Resolve and check the configs of environment and agent; starts no simulator.

    Args:
        config: The run's plain config.
        num_envs: Number of environments.
        experiment: Name of the experiment's folder.

    Returns:
        The configs, every setting applied.

    Raises:
        ConfigError: A setting, an ``env.*`` or an ``agent.*`` override does not fit, or something is not installed.
    """
    from isaaclab_pc.envs import PointCloudEnvCfg

    check_isaaclab()
    adapter = load_adapter(config["runner"]["name"])
    device = _resolve_device(config["device"])
    env_cfg, agent_cfg, backend = _load_configs(config, adapter, device)

    env_cfg.sim.device = device
    env_cfg.seed = config["seed"]
    env_cfg.scene.num_envs = num_envs
    guard = None
    if isinstance(env_cfg, PointCloudEnvCfg):
        _apply_task_settings(env_cfg, config, backend)
    else:
        _check_foreign(config)
        guard = _foreign_guard(config["guard"])
    check_time_steps(env_cfg)

    samples, minibatch_size = adapter.batch_target(agent_cfg)
    plan = plan_batch(num_envs, samples, config["minibatch_size"] or minibatch_size)
    adapter.configure(
        agent_cfg,
        obs=config["obs"],
        seed=config["seed"],
        max_iterations=config["max_iterations"],
        device=device,
        plan=plan,
        experiment=experiment,
    )
    return Resolved(
        task=config["task"],
        env_cfg=env_cfg,
        agent_cfg=agent_cfg,
        adapter=adapter,
        plan=plan,
        backend=backend,
        device=device,
        max_iterations=adapter.max_iterations(agent_cfg),
        guard=guard,
        visualizers=visualizer_names(config["visualizer"]),
    )


@contextmanager
def open_session(
    config: Mapping[str, Any], num_envs: int, experiment: str, run_dir: Path, watch: ProbeWatch | None = None
) -> Iterator[Session]:
    """Start the simulation, build environment and runner, and close the environment whatever happens.

    Args:
        config: The run's plain config.
        num_envs: Number of environments.
        experiment: Name of the experiment's folder.
        run_dir: Where the resolved configs and the runner's logs go.
        watch: A probe's; told before and after the environment is built.

    Yields:
        The running session.

    Raises:
        ConfigError: As for :func:`resolve`, or the preflight found an error.
        MemoryError: The preflight found too many environments for a trial; see :func:`check_run`.
    """
    start = time.perf_counter()
    resolved = resolve(config, num_envs, experiment)
    machine = Machine.here(resolved.device)
    warnings = check_run(
        resolved.env_cfg, resolved.plan, machine, trial=watch is not None, visualizers=resolved.visualizers
    )

    from isaaclab.utils.io import dump_yaml

    from isaaclab_pc.envs import PointCloudEnvCfg
    from isaaclab_pc.physics.asset_checks import check_scene

    # Where Isaac Lab's own scripts leave them; before runners, which change what they are given.
    dump_yaml(str(run_dir / "params" / "env.yaml"), resolved.env_cfg)
    dump_yaml(str(run_dir / "params" / "agent.yaml"), resolved.agent_cfg)
    with open_env(resolved, watch) as env:
        if watch is not None:
            watch.after_env(env, resolved.plan)
        if isinstance(resolved.env_cfg, PointCloudEnvCfg):
            warnings += check_scene(env.unwrapped.scene, resolved.env_cfg.sim)
        runner = make_runner(config["runner"]["name"], env, resolved.agent_cfg, run_dir, resolved.device)
        yield Session(resolved, env, runner, time.perf_counter() - start, warnings)


@contextmanager
def open_env(resolved: Resolved, watch: ProbeWatch | None = None) -> Iterator[Any]:
    """Start the simulation and its visualizers and build the environment, guarded; close it whatever happens.

    Args:
        resolved: What to build.
        watch: A probe's; told before the environment is built.

    Yields:
        The gym environment.
    """
    import gymnasium as gym
    from isaaclab.app import launch_simulation

    # None leaves it to the task's config; only Kit asks whether it is headless.
    launcher = {
        "device": resolved.device,
        "headless": "kit" not in resolved.visualizers,
        "visualizer": list(resolved.visualizers) or None,
    }
    with launch_simulation(resolved.env_cfg, launcher):
        if watch is not None:
            watch.before_env()
        env = gym.make(resolved.task, cfg=resolved.env_cfg)
        try:
            if resolved.guard is not None and resolved.guard.mode != "disabled":
                from isaaclab_pc.guards import attach_guard

                attach_guard(env, resolved.guard, resolved.task)
            yield env
        finally:
            env.close()


def record_faults(session: Session, config: Mapping[str, Any], folder: Path) -> None:
    """Keep the last steps of environments that fail, of any task that is guarded and whose actions are numbers.

    Args:
        session: The running session.
        config: The run's plain config.
        folder: Where the dumps go.
    """
    import gymnasium as gym

    from isaaclab_pc.guards.recorder import Recorder, RecorderCfg

    env = session.env.unwrapped
    if hasattr(env, "guard") and isinstance(env.single_action_space, gym.spaces.Box):
        about = {"task": config["task"], "config": dict(config), "backend": session.resolved.backend}
        Recorder.attach(env, folder, about, RecorderCfg(dumps=config["guard"]["dump"]))


def _resolve_device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return device
    index = int(device.partition(":")[2] or 0)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise ConfigError(f"device={device}: torch sees {count} GPUs here; use device=auto or device=cpu.")
    return f"cuda:{index}"


def _load_configs(config: Mapping[str, Any], adapter: Any, device: str) -> tuple[Any, Any, str]:
    """Let Isaac Lab resolve both configs, ``env.*`` and ``agent.*`` included, after checking these."""
    import gymnasium as gym

    import isaaclab_pc.tasks  # noqa: F401 (registers ours)

    if config["task"] not in gym.registry:
        import isaaclab_tasks  # noqa: F401 (registers Isaac Lab's)
        from isaaclab.cli import load_external_tasks

        load_external_tasks()

    from isaaclab_tasks.utils import PresetCfg, resolve_task_config
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    task, overrides = config["task"], [*config["env_overrides"], *config["agent_overrides"]]
    entry_point = adapter.agent_entry_point(config["agent"])
    if entry_point not in (gym.spec(task).kwargs or {}):
        raise ConfigError(
            f"{task} has no agent for runner={config['runner']['name']} agent={config['agent']}: it registers "
            f"{', '.join(sorted(k for k in gym.spec(task).kwargs if k.endswith('_cfg_entry_point')))}."
        )
    backend = resolve_backend(config["physics"]["backend"], device)
    try:
        plain: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
        presets = isinstance(plain.sim.physics, PresetCfg)
        selectors = [f"physics={backend}"] if presets else []
        env_cfg, agent_cfg = resolve_task_config(task, entry_point, overrides=selectors)
        check_overrides({"env": env_cfg, "agent": agent_cfg}, overrides)
        env_cfg, agent_cfg = resolve_task_config(task, entry_point, overrides=[*selectors, *overrides])
    except (ValueError, ImportError) as error:
        raise ConfigError(str(error)) from error
    # Deep copies: defaults of Isaac Lab's configs may be shared, and runners change what they are given.
    return copy.deepcopy(env_cfg), copy.deepcopy(agent_cfg), backend


def _check_foreign(config: Mapping[str, Any]) -> None:
    """Refuse settings that only this package's tasks have."""
    numbers: dict[str, Any] = {"reward": config["reward"]}
    for group in ("physics", "points"):
        numbers[group] = {k: v for k, v in config[group].items() if k != "backend"}
    given = sorted(key for key, value in flatten(numbers).items() if value is not None)
    if given:
        raise ConfigError(
            f"{config['task']} is not one of this package's tasks, so {', '.join(given)} cannot be set: "
            "set fields of its own config with env.<field>=value."
        )


def _foreign_guard(settings: Mapping[str, Any]) -> GuardCfg:
    """Return the guard for a task of which neither units nor scales are known."""
    from isaaclab_pc.guards import GuardCfg

    guard = GuardCfg(max_abs=_FOREIGN_MAX_ABS)
    _apply_guard(guard, settings)
    return guard


def _apply_guard(guard: GuardCfg, settings: Mapping[str, Any]) -> None:
    for name in ("mode", "ends", "max_abs"):
        if settings[name] is not None:
            setattr(guard, name, settings[name])
    guard.check()


def _check_preset(config: Mapping[str, Any]) -> None:
    """Refuse a preset beside ``env.*`` overrides that it would silently replace."""
    preset = config["physics"]["preset"]
    given = [text for text in config["env_overrides"] if text.split("=", 1)[0] in _SET_BY_PRESETS]
    if preset is not None and given:
        raise ConfigError(
            f"{given[0]} and physics.preset={preset} set the same field: give physics.dt, physics.substeps or "
            "physics.position_iterations, which win over the preset, or leave out physics.preset."
        )


def _apply_task_settings(env_cfg: Any, config: Mapping[str, Any], backend: str) -> None:
    """Write the settings of this package's tasks into the env config."""
    from isaaclab_pc.physics.presets import PhysicsPresetsCfg

    env_cfg.obs = config["obs"]
    if config["reward"] is not None:
        env_cfg.reward = config["reward"]
    env_cfg.check()
    _apply_points(env_cfg.scene.points, config["points"])
    _apply_guard(env_cfg.guard, config["guard"])
    _apply_robot(env_cfg, config, backend)
    # The preset that Isaac Lab resolved may carry env.sim.physics.* overrides: hand exactly that one on.
    presets = PhysicsPresetsCfg()
    setattr(presets, backend, env_cfg.sim.physics)
    env_cfg.sim.physics = presets
    _check_preset(config)
    apply_physics(env_cfg, PhysicsSettings(**{**config["physics"], "backend": backend}))
    camera = env_cfg.scene.camera
    if config["obs"] == "points" and camera is not None:
        env_cfg.scene.points.check([(camera.height, camera.width)])


def _apply_robot(env_cfg: Any, config: Mapping[str, Any], backend: str) -> None:
    """Put the robot that was asked for into the scene of one of this package's tasks."""
    name = config["robot"]
    if name == DEFAULT_ROBOT:
        return

    robot = ROBOTS[name]
    if robot.arm not in env_cfg.robots:
        arms = ",".join(repr(known) for known in (*env_cfg.robots, robot.arm))
        raise ConfigError(
            f"robot={name}: {config['task']} was tried with {', '.join(env_cfg.robots)} only. "
            f'Use robot={env_cfg.robots[0]}, or try it with "env.robots=[{arms}]".'
        )

    replaced = [text for text in config["env_overrides"] if text.startswith(_SET_BY_ROBOT)]
    if replaced:
        raise ConfigError(f"{replaced[0]} and robot={name} set the same field: leave out one of them.")

    from isaaclab_pc.envs.point_cloud_env_cfg import use_robot

    use_robot(env_cfg, robot.make_cfg(backend))


def _apply_points(points: Any, settings: Mapping[str, Any]) -> None:
    for name in ("num_points", "sampler", "frame", "features", "dtype"):
        if settings[name] is not None:
            setattr(points, name, settings[name])
    if settings["crop"] is not None:
        points.crop_lower, points.crop_upper = zip(*settings["crop"], strict=True)
    if settings["remove_robot"] is not None:
        others = tuple(name for name in points.remove if name != "robot")
        points.remove = ("robot", *others) if settings["remove_robot"] else others
    if settings["realism"] is not None:
        from isaaclab_pc.sensors import stereo, structured_light

        cameras = {"none": lambda: None, "stereo": stereo, "structured_light": structured_light}
        points.realism = cameras[settings["realism"]]()

# SPDX-License-Identifier: BSD-3-Clause
"""From the settings of a run to the configs of its environment and agent; starts no simulator."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from isaaclab_pc.assets.robots import DEFAULT_ROBOT, ROBOTS, find_robot
from isaaclab_pc.cli.task_names import load_task_packages
from isaaclab_pc.envs import PointCloudEnvCfg
from isaaclab_pc.errors import ConfigError, describe_error
from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.learners import Adapter, LearnerOptions, TeacherPolicy, agent_key, load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan, most_envs, plan_batch
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.physics.apply import check_time_steps
from isaaclab_pc.processes.child_process import is_stop
from isaaclab_pc.run.algorithm import EXPERT
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.platform import driver_versions
from isaaclab_pc.settings import GuardSettings, RunSettings
from isaaclab_pc.workers.overrides import check_overrides
from isaaclab_pc.workers.points import apply_points, is_of_realism

_SET_BY_PRESETS = ("env.sim.dt", "env.sim.physics.num_substeps", "env.sim.physics.solver_cfg.iterations")

_SET_BY_ROBOT = ("env.scene.robot.", "env.scene.points.gripper_")

_DEPTH_CAMERA_SIZE = ("env.scene.camera.width", "env.scene.camera.height")

_FOREIGN_MAX_ABS = 1e6
"""Largest magnitude that is no fault in tasks of other packages; contact forces and summed rewards may be large."""


@dataclass
class Resolved:
    """Configs of a run, before a simulator starts."""

    settings: RunSettings
    """The run's settings, device and physics backend chosen."""
    env_cfg: Any
    """The task's config, every setting applied."""
    agent_cfg: Any
    """The learning library's config, every setting applied."""
    adapter: Adapter
    """The adapter of the learning library."""
    plan: BatchPlan
    """Horizon and minibatches for this number of environments."""
    max_iterations: int
    """The run's last iteration."""
    most_envs: int
    """Environments beyond which an update has more samples than the agent asks for."""
    replay_samples: int
    """Samples that learning keeps over iterations."""
    guard: GuardCfg | None
    """Guard of an environment that has none of its own."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """The user's ``env.*`` and ``agent.*``."""
        return (*self.settings.env_overrides, *self.settings.agent_overrides)


def resolve(settings: RunSettings, num_envs: int) -> Resolved:
    """Resolve and check the configs of environment and agent; the parent has chosen device and physics backend.

    Raises:
        ConfigError: A setting, an ``env.*`` or an ``agent.*`` override does not fit, or something is not installed.
    """
    _check_device(settings.device)
    adapter = load_adapter(settings.runner)
    env_cfg, agent_cfg = _load_configs(settings)
    _choose_networks(agent_cfg, settings)
    is_set = any(text.startswith("agent.max_iterations=") for text in settings.agent_overrides)
    if settings.obs == "depth" and not is_set and hasattr(agent_cfg, "depth_iterations"):
        agent_cfg.max_iterations = agent_cfg.depth_iterations

    env_cfg.sim.device = settings.device
    env_cfg.seed = settings.seed
    env_cfg.scene.num_envs = num_envs
    guard = None
    is_ours = isinstance(env_cfg, PointCloudEnvCfg)
    if is_ours:
        _apply_task_settings(env_cfg, settings)
    else:
        _check_foreign(settings)
        # Neither units nor scales are known.
        guard = GuardCfg(max_abs=_FOREIGN_MAX_ABS)
        _apply_guard(guard, settings.guard)
    check_time_steps(env_cfg)

    samples = max(1, adapter.batch_target(agent_cfg)[0] // settings.ranks)
    plan = _plan_batch(settings, adapter, agent_cfg, num_envs)
    options = LearnerOptions(
        obs=settings.obs if is_ours else None,
        seed=settings.seed,
        max_iterations=settings.max_iterations,
        device=settings.device,
        plan=plan,
        replay_samples=settings.replay_samples,
        teacher=_find_teacher(settings),
        demos=Path(settings.demos) if settings.demos is not None else None,
        init=Path(settings.init) if settings.init is not None else None,
    )
    adapter.configure(agent_cfg, options)
    return Resolved(
        settings=settings,
        env_cfg=env_cfg,
        agent_cfg=agent_cfg,
        adapter=adapter,
        plan=plan,
        max_iterations=adapter.max_iterations(agent_cfg),
        most_envs=most_envs(samples),
        replay_samples=adapter.replay_samples(agent_cfg),
        guard=guard,
    )


def _check_device(device: str) -> None:
    """Refuse a GPU that torch does not see: the parent could ask the driver only."""
    if not device.startswith("cuda"):
        return

    import torch

    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        if int(device.partition(":")[2]) >= count:
            raise ConfigError(f"device={device}: torch sees {count} GPUs here, counted from cuda:0.")
        return

    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU"
    driver = driver_versions()
    here = f"the driver {driver[0]} here knows CUDA up to {driver[1]}" if driver else "no NVIDIA driver answers here"
    raise ConfigError(
        f"device={device}: torch {torch.__version__} is built for {built_for}, and {here}. Install a driver and a "
        "torch that fit each other, or use device=cpu."
    )


def _load_configs(settings: RunSettings) -> tuple[Any, Any]:
    """Let Isaac Lab resolve both configs, ``env.*`` and ``agent.*`` included, after checking these."""
    import gymnasium as gym

    import isaaclab_pc.tasks  # noqa: F401 (registers ours)

    task = settings.task
    if task not in gym.registry:
        # The parent has warned of those that are broken.
        load_task_packages()

    from isaaclab_tasks.utils import PresetCfg, resolve_task_config
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    _check_registration(task)
    entry_point = agent_key(settings.runner, settings.agent_size, settings.learner)
    env_overrides = [text for text in settings.env_overrides if not is_of_realism(text)]
    overrides = [*env_overrides, *settings.agent_overrides]
    try:
        unresolved: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
        _check_kind(task, unresolved)
        registered = gym.spec(task).kwargs
        if entry_point not in registered:
            asked = f"runner={settings.runner} agent={settings.agent_size} algorithm={settings.learner}"
            known = sorted(key for key in registered if key.endswith("_cfg_entry_point"))
            raise ConfigError(f"{task} has no agent for {asked}: it registers {', '.join(known)}.")

        has_presets = isinstance(unresolved.sim.physics, PresetCfg)
        selectors = [f"physics={settings.physics.backend}"] if has_presets else []
        env_cfg, agent_cfg = resolve_task_config(task, entry_point, overrides=selectors)
        configs = {"env": env_cfg, "agent": agent_cfg}
        checked = check_overrides(configs, overrides, {"env": unresolved}, PresetCfg)
        env_cfg, agent_cfg = resolve_task_config(task, entry_point, overrides=[*selectors, *checked])
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        if is_stop(error):
            raise
        # Isaac Lab raises whatever setting a field raised.
        given = f"{', '.join(overrides)}: " if overrides else ""
        raise ConfigError(f"{given}{task} cannot be configured: {describe_error(error)}") from error
    # Deep copies: defaults of Isaac Lab's configs may be shared, and runners change their configs.
    return copy.deepcopy(env_cfg), copy.deepcopy(agent_cfg)


def _check_registration(task: str) -> None:
    """Refuse a registration for a single environment, which would fail late in a training."""
    import gymnasium as gym

    spec = gym.spec(task)
    if spec.entry_point is None:
        raise ConfigError(f"{task} is registered without an entry_point; a vector_entry_point alone cannot be used.")
    if spec.max_episode_steps is not None:
        raise ConfigError(
            f"{task} is registered with max_episode_steps={spec.max_episode_steps}: gymnasium's TimeLimit counts the "
            "steps of a single environment. Register it without, and set episode_length_s in its config."
        )


def _check_kind(task: str, env_cfg: Any) -> None:
    """Refuse the config of a task of several agents, or of one without rewards."""
    from isaaclab.envs import DirectMARLEnvCfg, ManagerBasedEnvCfg, ManagerBasedRLEnvCfg

    kind = type(env_cfg).__name__
    if isinstance(env_cfg, DirectMARLEnvCfg):
        raise ConfigError(f"{task} is a task of several agents ({kind}); only single agents learn here.")
    if isinstance(env_cfg, ManagerBasedEnvCfg) and not isinstance(env_cfg, ManagerBasedRLEnvCfg):
        raise ConfigError(f"{task} has no rewards to learn from: {kind} is no ManagerBasedRLEnvCfg.")


def _choose_networks(agent_cfg: Any, settings: RunSettings) -> None:
    """Write ``encoder``, ``recurrent`` and ``chunk`` wherever the agent's configuration describes such a network."""
    encoder = None if settings.encoder == "auto" else settings.encoder
    if encoder is not None:
        if settings.obs != "points":
            raise ConfigError(f"encoder={encoder}: obs={settings.obs} has no cloud to read; give obs=points.")
        given = [text for text in settings.agent_overrides if ".point_encoder=" in text]
        if given:
            raise ConfigError(f"encoder={encoder} and {given[0]} choose the same; give one of them.")

    not_ours = "is not this package's; fields of its own config are set with agent.<field>=value"
    for field, setting, value, lacks in (
        ("point_encoder", "encoder", encoder, "has no encoder of clouds"),
        ("rnn_type", "recurrent", settings.recurrent, not_ours),
        ("chunk", "chunk", settings.chunk, "has no encoder of this package"),
    ):
        if value is None:
            continue
        found = list(_parts_with(field, agent_cfg))
        if not found:
            raise ConfigError(f"{setting}={value}: the agent of {settings.task} {lacks}.")
        for network in found:
            network[field] = value


def _parts_with(name: str, config: Any) -> Iterator[dict[str, Any]]:
    """Yield the fields of the parts of an agent's configuration that have this one, of whatever library."""
    fields = config if isinstance(config, dict) else vars(config) if is_dataclass(config) else {}
    if name in fields:
        yield fields
        return
    for value in fields.values():
        yield from _parts_with(name, value)


def _find_teacher(settings: RunSettings) -> TeacherPolicy | None:
    """Return the policy that teaches, with the config that its own run resolves to; None where none does."""
    if settings.teacher is None or settings.teacher == EXPERT:
        return None

    checkpoint = Path(settings.teacher)
    try:
        trained = RunSettings.load(checkpoint.parent.parent / SETTINGS_NAME)
    except ConfigError as error:
        raise ConfigError(f"teacher={checkpoint} is of no run here: {error}") from None
    _, agent_cfg = _load_configs(trained)
    return TeacherPolicy(checkpoint, agent_cfg)


def _plan_batch(settings: RunSettings, adapter: Adapter, agent_cfg: Any, num_envs: int) -> BatchPlan:
    samples, minibatch_size = adapter.batch_target(agent_cfg)
    if settings.minibatch_size is not None and settings.minibatch_size > samples:
        raise ConfigError(
            f"minibatch_size={settings.minibatch_size} is more than the {samples} samples of an update: give at most "
            "that, or more samples per update."
        )
    # Each GPU collects its share of an update's samples, and learns from its share of a minibatch.
    minibatch_size = settings.minibatch_size or minibatch_size
    return plan_batch(
        num_envs,
        max(1, samples // settings.ranks),
        max(1, minibatch_size // settings.ranks),
        whole_envs=settings.recurrent is not None,
    )


def _check_foreign(settings: RunSettings) -> None:
    """Refuse settings that only this package's tasks have."""
    ours: dict[str, Any] = {
        "reward": settings.reward,
        "robot": None if settings.robot == DEFAULT_ROBOT else settings.robot,
        # Scripts choose obs=state where nobody looks.
        "obs": "depth" if settings.obs == "depth" else None,
        **{f"physics.{name}": value for name, value in settings.physics.model_dump(exclude={"backend"}).items()},
        **{f"points.{name}": value for name, value in settings.points.model_dump().items()},
    }
    given = sorted(key for key, value in ours.items() if value is not None)
    given += filter(is_of_realism, settings.env_overrides)
    if given:
        raise ConfigError(
            f"{settings.task} is not one of this package's tasks, so {', '.join(given)} cannot be set: "
            "set fields of its own config with env.<field>=value."
        )


def _apply_guard(guard: GuardCfg, settings: GuardSettings) -> None:
    guard.mode = settings.mode
    guard.ends = settings.ends
    if settings.max_abs is not None:
        guard.max_abs = settings.max_abs
    guard.check()


def _apply_task_settings(env_cfg: Any, settings: RunSettings) -> None:
    from isaaclab_pc.envs.point_cloud_env_cfg import check_points, fit_depth_camera

    env_cfg.obs = settings.obs
    if settings.reward is not None:
        env_cfg.reward = settings.reward
    env_cfg.check()
    replaced = [text for text in settings.env_overrides if text.startswith(_DEPTH_CAMERA_SIZE)]
    if settings.obs == "depth" and replaced:
        raise ConfigError(f"{replaced[0]} with obs=depth: its image has the size env.depth_size=[rows,columns].")
    fit_depth_camera(env_cfg)
    if settings.obs == "depth" and settings.points.realism not in (None, "none"):
        raise ConfigError(
            f"points.realism={settings.points.realism} with obs=depth: only clouds are given a camera's errors. Use "
            "obs=points, or leave it out."
        )

    apply_points(env_cfg, settings.points, settings.env_overrides)
    _apply_guard(env_cfg.guard, settings.guard)
    _apply_robot(env_cfg, settings)
    preset = settings.physics.preset
    given = [text for text in settings.env_overrides if text.partition("=")[0] in _SET_BY_PRESETS]
    if preset is not None and given:
        raise ConfigError(
            f"{given[0]} and physics.preset={preset} set the same field: give physics.dt, physics.substeps or "
            "physics.position_iterations, which win over the preset, or leave out physics.preset."
        )
    apply_physics(env_cfg, settings.physics)

    if settings.obs == "points" and env_cfg.scene.camera is not None:
        check_points(env_cfg)


def _apply_robot(env_cfg: Any, settings: RunSettings) -> None:
    name = settings.robot
    if name == DEFAULT_ROBOT:
        return

    make_cfg = find_robot(name)
    # Where several arms do, the task depends on none.
    if name not in env_cfg.robots and (name in ROBOTS or len(env_cfg.robots) == 1):
        arms = ",".join(repr(known) for known in (*env_cfg.robots, name))
        raise ConfigError(
            f"robot={name}: {settings.task} was tried with {', '.join(env_cfg.robots)} only. "
            f'Use robot={env_cfg.robots[0]}, or try it with "env.robots=[{arms}]".'
        )
    replaced = [text for text in settings.env_overrides if text.startswith(_SET_BY_ROBOT)]
    if replaced:
        raise ConfigError(f"{replaced[0]} and robot={name} set the same field: leave out one of them.")

    from isaaclab_pc.envs.point_cloud_env_cfg import use_robot

    use_robot(env_cfg, make_cfg())

# SPDX-License-Identifier: BSD-3-Clause
"""A running environment and its runner, made from settings; used by every worker that simulates."""

import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from isaaclab_pc.envs import PointCloudEnvCfg
from isaaclab_pc.errors import ConfigError, describe_error, error_chain
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.learners import Runner
from isaaclab_pc.num_envs.classify import out_of_memory_line
from isaaclab_pc.num_envs.memory import free_memory
from isaaclab_pc.num_envs.preflight import check_run, check_samples
from isaaclab_pc.physics.idle_threads import relax_thread_timers
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.viewer.web_address import serve_isaaclab_viser
from isaaclab_pc.workers.probe_watch import ProbeWatch
from isaaclab_pc.workers.resolve import Resolved, resolve


@dataclass
class Session:
    """A running environment and its runner."""

    resolved: Resolved
    """Configs that they were made from."""
    env: Any
    """The gym environment."""
    runner: Runner
    build_s: float
    """Time that building environment and runner took [s]."""
    warnings: list[str] = field(default_factory=list)
    """Findings of the preflight that do not keep it from running."""


@contextmanager
def open_session(
    settings: RunSettings,
    num_envs: int,
    run_dir: Path,
    watch: ProbeWatch | None = None,
    *,
    learns: bool = False,
    prepare: Callable[[Any], object] | None = None,
) -> Iterator[Session]:
    """Start the simulation, build environment and runner, and close the environment whatever happens.

    Args:
        settings: The run's settings.
        num_envs: Number of environments.
        run_dir: Where the resolved configs and the runner's logs go.
        watch: A probe's; told the plan, and before and after the environment is built.
        learns: Whether the policy will learn here: its samples have to fit into the memory then.
        prepare: As for :func:`open_env`.

    Raises:
        ConfigError: As for :func:`resolve`; the preflight found an error, or an override cannot be built.
        TooManyEnvironmentsError: As the watch says.
        MemoryError: Too many environments or samples for a trial; see :func:`check_run` and :func:`check_samples`.
    """
    start = time.perf_counter()
    resolved = resolve(settings, num_envs)
    is_trial = watch is not None
    if watch is not None:
        watch.start(resolved, num_envs)
    warnings = check_run(resolved.env_cfg, free_memory(settings.device), trial=is_trial)

    from isaaclab.utils.io import dump_yaml

    # Where Isaac Lab's own scripts leave them; before runners, which change their configs.
    dump_yaml(str(run_dir / "params" / "env.yaml"), resolved.env_cfg)
    dump_yaml(str(run_dir / "params" / "agent.yaml"), resolved.agent_cfg)

    with open_env(resolved, watch, prepare) as env:
        if watch is not None:
            watch.after_env(env)
        if learns:
            space = env.unwrapped.single_observation_space
            free = free_memory(settings.device)
            warnings += check_samples(space, resolved.plan, resolved.replay_samples, free, trial=is_trial)
        if learns and settings.demos is not None:
            from isaaclab_pc.export.policy_description import describe_env
            from isaaclab_pc.workers.check_demos import check_demos

            check_demos(settings.demos, describe_env(env.unwrapped, settings.robot))
        with _named("the agent", resolved.overrides):
            runner = resolved.adapter.make(env, resolved.agent_cfg, run_dir, settings.device)
        if watch is not None:
            watch.after_runner(runner)
        warnings += warn_of_empty_clouds(env.unwrapped)
        yield Session(resolved, env, runner, time.perf_counter() - start, warnings)


def warn_of_empty_clouds(env: Any) -> list[str]:
    """Return a warning where no environment has a point: nothing would be learned for as long as the run takes."""
    # Loads the simulator, which is there by now.
    from isaaclab_pc.sensors import PointCloud

    sensors = env.scene.sensors.values() if hasattr(env, "scene") else ()
    clouds = [sensor for sensor in sensors if isinstance(sensor, PointCloud)]
    if not clouds or any(cloud.data.count.torch.any() for cloud in clouds):
        return []
    return [
        "every cloud is empty: no camera sees anything in points.crop that is kept. scripts/view.py shows cameras, "
        "crop and cloud"
    ]


@contextmanager
def open_env(
    resolved: Resolved, watch: ProbeWatch | None = None, prepare: Callable[[Any], object] | None = None
) -> Iterator[Any]:
    """Start the simulation and its visualizers and build the environment, guarded; close it whatever happens.

    Kit ends the process as it closes, with the code of the SystemExit that leaves the block, or 0. So a worker that
    fails leaves by a SystemExit, once all its results are written. ``watch`` is told before the environment is built,
    and ``prepare`` changes its config.

    Raises:
        ConfigError: An override cannot be built.
    """
    from isaaclab.app import launch_simulation

    settings = resolved.settings
    is_ours = isinstance(resolved.env_cfg, PointCloudEnvCfg)
    is_live = is_ours and "viser" in settings.visualizers
    if is_live:
        resolved.env_cfg.drawn = True
    if prepare is not None:
        prepare(resolved.env_cfg)
    others = [name for name in settings.visualizers if not (is_live and name == "viser")]
    if "viser" in others:
        serve_isaaclab_viser(settings.host, resolved.env_cfg.sim)
    # None leaves it to the task's config; only Kit asks whether it is headless.
    launcher = {"device": settings.device, "headless": "kit" not in others, "visualizer": others or None}
    with launch_simulation(resolved.env_cfg, launcher):
        if watch is not None:
            watch.before_env()
        # This package's tasks calm their threads by themselves; those of others do not.
        with _named("the environment", resolved.overrides), relax_thread_timers():
            env = gym.make(settings.task, cfg=resolved.env_cfg)
        with closing(env), ExitStack() as stack:
            if resolved.guard is not None and resolved.guard.mode != "disabled":
                from isaaclab_pc.guards import attach_guard

                attach_guard(env, resolved.guard, settings.task)
            if is_live:
                # It reads scenes with Newton's help, which a run that nobody watches does not load.
                from isaaclab_pc.viewer.live_view import live_view

                title = f"{settings.task}, {settings.physics.backend}"
                stack.enter_context(live_view(env.unwrapped, settings.host, title))
            yield env


@contextmanager
def _named(what: str, overrides: Sequence[str]) -> Iterator[None]:
    """Name the user's overrides where building something with them fails, and the file that has the traceback."""
    try:
        yield
    except Exception as error:
        # A half-built environment fails once more as it is closed, which hides the first error.
        chain = error_chain(error)
        said = next((one for one in chain if isinstance(one, (ConfigError, MemoryError))), None)
        if said is error:
            raise
        if said is not None:
            traceback.print_exc()
            raise said from None
        if not overrides or any(out_of_memory_line(str(one)) for one in chain):
            raise
        traceback.print_exc()
        # The folder of a run that is refused, its log included, does not stay.
        with tempfile.NamedTemporaryFile(
            "w", prefix="isaaclab_pc-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exc(file=file)
        raise ConfigError(
            f"{', '.join(overrides)}: {what} cannot be built with that ({describe_error(error)}). Leave it out; the "
            f"traceback is in {file.name}."
        ) from error


def record_faults(env: Any, settings: RunSettings, folder: Path) -> Recorder | None:
    """Dump the last steps of environments that fail to a folder; None for a task that is not guarded."""
    base: Any = env.unwrapped
    if hasattr(base, "guard") and isinstance(base.single_action_space, gym.spaces.Box):
        about = {"task": settings.task, "config": settings.model_dump(), "backend": settings.physics.backend}
        return Recorder.attach(base, folder, about, settings.guard.dump)
    return None


def guard_counts(env: Any) -> dict[str, int]:
    """Return how many environments the guard ended so far, by cause; empty for a task without a guard."""
    guard = getattr(env.unwrapped, "guard", None)
    return {cause: int(count) for cause, count in guard.counts.items()} if guard is not None else {}

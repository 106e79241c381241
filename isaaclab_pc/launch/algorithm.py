# SPDX-License-Identifier: BSD-3-Clause
"""What a run learns with, and from whom. Chosen once, in the parent; loads no torch."""

from __future__ import annotations

from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.run_folder import LOGS, SETTINGS_NAME, experiment_name
from isaaclab_pc.launch.run_record import find_checkpoint
from isaaclab_pc.launch.task_names import expert_tasks
from isaaclab_pc.runners import read_header
from isaaclab_pc.settings import RunSettings

__all__ = ["EXPERT", "TRAIN", "choose_algorithm", "teacher_settings"]

EXPERT = "expert"
"""The value of ``teacher`` that names the task's own expert."""

TRAIN = "train"
"""The value of ``teacher`` that names a policy which is yet to be trained, with PPO on the state."""

_ACTION_FIELDS = ("env.action", "env.gripper", "env.tool_", "env.joint_delta")
"""Beginnings of the fields that say what an action does."""


def choose_algorithm(settings: RunSettings) -> RunSettings:
    """Choose the algorithm and the teacher, and say which and why.

    Args:
        settings: The run's settings; ``task`` is a gym id.

    Returns:
        The settings with ``algorithm`` and ``teacher`` as they will be; a policy that teaches is the path of its
        checkpoint, or ``train`` while it does not exist.

    Raises:
        ConfigError: Runner, task or teacher do not go together with the algorithm.
    """
    has_expert = settings.task in expert_tasks().values()
    chosen, reason = settings.algorithm, "as given"
    if chosen == "auto":
        chosen, reason = _recommended(settings, has_expert)
    teacher = settings.teacher
    if chosen == "distill":
        _check_runner(settings)
        teacher = _find_teacher(settings, has_expert)
    else:
        _check_unused(settings)

    taught = f" teacher={teacher}" if chosen == "distill" else ""
    print(f"algorithm={chosen}{taught} ({reason})", flush=True)
    return settings.with_values({"algorithm": chosen, "teacher": teacher})


def teacher_settings(settings: RunSettings) -> RunSettings:
    """Return the settings of the run that trains the teacher of ``teacher=train``.

    It has the same task, robot, physics and actions. What is about the cloud, the student's learning or its length is
    left out, and so is who watches: PPO would learn nothing in the few environments that are drawn.

    Args:
        settings: The student's settings.
    """
    cloud = {key: None for key in settings.flat() if key.startswith("points.")}
    others = {
        "obs": "state",
        "algorithm": "ppo",
        "teacher": None,
        "replay_samples": None,
        "minibatch_size": None,
        "max_iterations": None,
        "visualizer": None,
        "agent_overrides": [],
    }
    return settings.with_values(cloud | others)


def _recommended(settings: RunSettings, has_expert: bool) -> tuple[str, str]:
    """Return the algorithm that ``auto`` means, and why."""
    if settings.teacher is not None:
        return "distill", "auto: a teacher is given"
    if settings.runner != "rsl_rl":
        return "ppo", f"auto: runner={settings.runner} has no other"
    if settings.obs == "state":
        return "ppo", "auto: obs=state leaves nothing to imitate that it could not learn by itself"
    if not has_expert:
        return "ppo", "auto: the task has no expert"
    return "distill", "auto: the task has an expert to imitate"


def _check_unused(settings: RunSettings) -> None:
    for key in ("teacher", "replay_samples"):
        value = getattr(settings, key)
        if value is not None:
            raise ConfigError(f"{key}={value} has no effect with algorithm=ppo: give algorithm=distill.")


def _check_runner(settings: RunSettings) -> None:
    if settings.runner != "rsl_rl":
        raise ConfigError(
            f"algorithm=distill with runner={settings.runner}: only RSL-RL can distill. Use runner=rsl_rl, or "
            "algorithm=ppo."
        )


def _find_teacher(settings: RunSettings, has_expert: bool) -> str:
    """Return ``expert`` or the path of a checkpoint."""
    teacher = settings.teacher or EXPERT
    if teacher == TRAIN:
        if settings.obs == "state":
            raise ConfigError(f"teacher={TRAIN} with obs=state: the student would see what its teacher sees.")
        return TRAIN
    if teacher != EXPERT:
        return str(_find_policy(settings, teacher))

    if not has_expert:
        tasks = ", ".join(expert_tasks())
        raise ConfigError(
            f"teacher=expert: {settings.task} has no expert; these have one: {tasks}. Give teacher=<run> of a run with "
            "obs=state, or algorithm=ppo."
        )
    return EXPERT


def _find_policy(settings: RunSettings, teacher: str) -> Path:
    """Return the checkpoint of a policy that can teach this run; reads settings and headers only."""
    as_teacher = settings.with_values({"obs": "state"})
    record, checkpoint = find_checkpoint(teacher, LOGS, settings.runner, experiment_name(as_teacher), "teacher")
    trained = RunSettings.load(record.folder / SETTINGS_NAME)

    header = read_header(checkpoint)
    for key in ("task", "runner", "robot"):
        there = header.get(key, getattr(trained, key))
        here = getattr(settings, key)
        if there != here:
            raise ConfigError(f"teacher={teacher} comes from a run with {key}={there}, this one has {key}={here}.")
    if trained.obs != "state":
        raise ConfigError(
            f"teacher={teacher} comes from a run with obs={trained.obs}: only a policy with obs=state can teach. "
            f"Train one with obs=state, or give teacher={EXPERT}."
        )
    there = _action_overrides(trained)
    here = _action_overrides(settings)
    if there != here:
        raise ConfigError(
            f"teacher={teacher} acts otherwise than this run: it was trained with {' '.join(there) or 'no env.*'}, and "
            f"this run has {' '.join(here) or 'none'}. Give both runs the same."
        )
    return checkpoint.resolve()


def _action_overrides(settings: RunSettings) -> list[str]:
    """Return the overrides that say what an action does."""
    return sorted(text for text in settings.env_overrides if text.startswith(_ACTION_FIELDS))

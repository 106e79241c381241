# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm and teacher of a run. Chosen once, in the parent; loads no torch."""

from pathlib import Path

from isaaclab_pc.cli.task_names import require_expert, task_traits
from isaaclab_pc.demos.convert import conversion, convert
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import read_header
from isaaclab_pc.run.find_checkpoint import find_trained
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

EXPERT = "expert"
"""The value of ``teacher`` that names the task's own expert."""

TRAIN = "train"
"""The value of ``teacher`` that names a policy which is yet to be trained, with PPO on the state."""

DEMOS_NUM_ENVS = 64
"""Environments of ``num_envs=auto`` with ``demos``: nothing is learned from them."""

_NETWORKS = ("agent.student.", "agent.actor.")
"""Beginnings of the fields of a distilled policy's network, and of those of one that PPO went on from."""

_OF_CLOUDS = ("env.history_length=", "env.scene.points.")
"""Beginnings of overrides that a policy with obs=state has no use for."""

_RECURRENT = ("rsl_rl", "rl_games")
"""Libraries whose policies can have a memory."""

_ACTION_FIELDS = ("env.action", "env.gripper", "env.tool_", "env.joint_delta")
"""Beginnings of the fields that say what an action does."""


def choose_algorithm(settings: RunSettings, *, begins: bool = True) -> RunSettings:
    """Choose the algorithm, the policies that it needs and the size of the agent, and say which and why.

    Args:
        settings: The run's settings; ``task`` is a gym id, and the device is chosen.
        begins: Whether the run begins here; one that goes on needs its ``init`` no more.

    Returns:
        The settings with ``algorithm``, ``teacher``, ``init`` and ``agent`` as they will be, policies as paths of their
        checkpoints. With ``init``, the network is that policy's.

    Raises:
        ConfigError: Runner, task, teacher or init do not go together with the algorithm.
    """
    chosen, reason = settings.algorithm, "as given"
    if chosen == "auto":
        chosen, reason = _recommended(settings)

    _check_recurrent(settings, chosen)
    teacher = settings.teacher
    init = settings.init
    if chosen == "distill":
        _check_distill(settings)
        if settings.demos is None:
            teacher = _find_teacher(settings)
        else:
            settings = _with_demos(settings, settings.demos)
    else:
        _check_rewards(settings, chosen)
        if begins and init is not None:
            init, student = _find_student(settings, init)
            # PPO has the layers of the policy from which it goes on, and as many frames to read.
            frames = [text for text in student.env_overrides if text.startswith("env.history_length=")]
            layers = [
                text.replace("agent.student.", "agent.actor.", 1)
                for text in student.agent_overrides
                if text.startswith(_NETWORKS) and "distribution" not in text
            ]
            own = {
                "agent": student.agent_size,
                "encoder": student.encoder,
                "agent_overrides": [*layers, *settings.agent_overrides],
                "env_overrides": [*frames, *settings.env_overrides],
            }
            settings = settings.with_values(own)

    taught = f" teacher={teacher}" if teacher is not None else ""
    begun = f" init={init}" if init is not None else ""
    chosen_settings = {"algorithm": chosen, "teacher": teacher, "init": init, "agent": _agent(settings)}
    current().decide(f"algorithm={chosen}{taught}{begun} ({reason})", **chosen_settings)
    return settings.with_values(chosen_settings)


def with_state_observations(settings: RunSettings) -> RunSettings:
    """Return settings with ``obs=state``, without what is about the cloud, its encoder or earlier frames."""
    cloud = {key: None for key in settings.flat() if key.startswith("points.")}
    others = [text for text in settings.env_overrides if not text.startswith(_OF_CLOUDS)]
    return settings.with_values(cloud | {"obs": "state", "encoder": "auto", "env_overrides": others})


def teacher_settings(settings: RunSettings) -> RunSettings:
    """Return the settings of the run that trains the teacher of ``teacher=train``.

    Left out is what only concerns the student, and the visualizer: PPO would learn nothing in the few environments that
    are drawn.
    """
    of_student = ("recurrent", "teacher", "replay_samples", "minibatch_size", "chunk", "max_iterations", "visualizer")
    others = {**dict.fromkeys(of_student), "algorithm": "ppo", "agent_overrides": []}
    return with_state_observations(settings).with_values(others)


def _recommended(settings: RunSettings) -> tuple[str, str]:
    """Return the algorithm that ``auto`` means, and why."""
    if settings.demos is not None:
        return "distill", "auto: demonstrations are given"
    if settings.teacher is not None:
        return "distill", "auto: a teacher is given"
    if settings.init is not None:
        return "ppo", "auto: it goes on from init"
    if settings.recurrent is not None:
        return "ppo", "auto: a recurrent policy learns from rewards"
    if settings.runner != "rsl_rl":
        return "ppo", f"auto: runner={settings.runner} has no other"
    if settings.obs == "state":
        return "ppo", "auto: obs=state leaves nothing to imitate that it could not learn by itself"
    if not task_traits(settings.task)["has_expert"]:
        return "ppo", "auto: the task has no expert"
    return "distill", "auto: the task has an expert to imitate"


def _agent(settings: RunSettings) -> str:
    """Return the size of the agent, and say so where it is not that of a CPU."""
    if settings.agent != "auto":
        return settings.agent
    if not settings.device.startswith("cuda") or not task_traits(settings.task)["has_sizes"]:
        return "default"
    current().say("note: agent=large (auto: on a GPU); agent=default is the one for a CPU")
    return "large"


def _check_recurrent(settings: RunSettings, chosen: str) -> None:
    if settings.recurrent is None:
        return
    if settings.runner not in _RECURRENT or chosen != "ppo":
        raise ConfigError(
            f"recurrent={settings.recurrent} with runner={settings.runner} algorithm={chosen}: only PPO of "
            f"{' and '.join(_RECURRENT)} has it. Use algorithm=ppo and one of them, or leave out recurrent."
        )
    if settings.init is not None:
        raise ConfigError(
            f"recurrent={settings.recurrent} with init={settings.init}: that policy has no memory. Leave out one of "
            "them."
        )


def _check_rewards(settings: RunSettings, chosen: str) -> None:
    for key in ("teacher", "demos", "replay_samples"):
        value = getattr(settings, key)
        if value is not None:
            raise ConfigError(f"{key}={value} has no effect with algorithm={chosen}: give algorithm=distill.")
    if settings.init is not None and settings.runner != "rsl_rl":
        raise ConfigError(f"init={settings.init} with runner={settings.runner}: give runner=rsl_rl, which can distill.")


def _check_distill(settings: RunSettings) -> None:
    if settings.runner != "rsl_rl":
        raise ConfigError(
            f"algorithm=distill with runner={settings.runner}: only RSL-RL can distill. Use runner=rsl_rl, or "
            "algorithm=ppo."
        )
    if settings.init is not None:
        raise ConfigError(
            f"init={settings.init} has no effect with algorithm=distill: leave out teacher and algorithm, and PPO goes "
            "on from that policy."
        )


def _with_demos(settings: RunSettings, demos: str) -> RunSettings:
    """Return the settings with the file's full path, and with a number of environments."""
    for key in ("teacher", "replay_samples"):
        value = getattr(settings, key)
        if value is not None:
            raise ConfigError(f"{key}={value} has no effect with demos={demos}: leave out one of them.")
    path = Path(demos).resolve()
    if path.is_dir():
        path = _converted(path)
    if not path.is_file():
        raise ConfigError(f"demos={demos}: there is no such file. scripts/demo.py task={settings.task} records one.")
    num_envs = DEMOS_NUM_ENVS if settings.num_envs == "auto" else settings.num_envs
    return settings.with_values({"demos": str(path), "num_envs": num_envs})


def _converted(dataset: Path) -> Path:
    """Return a file with the episodes of a LeRobot dataset; the folder keeps it."""
    info = dataset / "meta" / "info.json"
    if not info.is_file():
        raise ConfigError(
            f"demos={dataset} is a folder without meta/info.json: give a LeRobot dataset or an HDF5 file."
        )
    path = dataset / "demos.hdf5"
    if not path.is_file() or path.stat().st_mtime < info.stat().st_mtime:
        current().say(f"reading {dataset} to {path}; lerobot's environment takes minutes to make the first time")
        if convert(conversion(f"demos={dataset}", dataset, path)):
            raise ConfigError(f"demos={dataset} cannot be learned from.")
    return path


def _find_teacher(settings: RunSettings) -> str:
    """Return ``expert``, ``train`` or the path of a checkpoint."""
    teacher = settings.teacher or EXPERT
    if teacher == EXPERT:
        instead = " Give teacher=<run> of a run with obs=state, or algorithm=ppo."
        require_expert(settings.task, "teacher=expert", instead)
        return EXPERT
    if teacher == TRAIN:
        if settings.obs == "state":
            raise ConfigError(f"teacher={TRAIN} with obs=state: the student would see what its teacher sees.")
        return TRAIN

    trained, checkpoint = _find_policy("teacher", settings, "state")
    if trained.obs != "state":
        raise ConfigError(
            f"teacher={teacher} comes from a run with obs={trained.obs}: only a policy with obs=state can teach. "
            f"Train one with obs=state, or give teacher={EXPERT}."
        )
    if trained.recurrent is not None:
        raise ConfigError(
            f"teacher={teacher} comes from a run with recurrent={trained.recurrent}: its student would have to know "
            "what it remembers. Train a teacher without recurrent."
        )
    return str(checkpoint.resolve())


def _find_student(settings: RunSettings, init: str) -> tuple[str, RunSettings]:
    """Return the checkpoint of a policy from which PPO can go on, and its settings."""
    trained, checkpoint = _find_policy("init", settings, settings.obs)
    if trained.learner == "ppo":
        raise ConfigError(
            f"init={init} comes from a run with algorithm=ppo: it goes on with resume=<that run> and a larger "
            "max_iterations. init takes what distill has trained."
        )
    for key, there in (("obs", trained.obs), ("agent", trained.agent_size), ("encoder", trained.encoder)):
        if getattr(settings, key) not in ("auto", there):
            raise ConfigError(f"init={init} comes from a run with {key}={there}: give {key}={there} here, too.")
    return str(checkpoint.resolve()), trained


def _find_policy(key: str, settings: RunSettings, obs: str) -> tuple[RunSettings, Path]:
    """Return the settings and the checkpoint of ``teacher`` or ``init``; reads settings and headers only."""
    policy = getattr(settings, key)
    trained, checkpoint, _ = find_trained(policy, settings.with_values({"obs": obs}), key)
    _check_same_actions(f"{key}={policy}", trained, settings, checkpoint)
    return trained, checkpoint


def _check_same_actions(given: str, trained: RunSettings, settings: RunSettings, checkpoint: Path) -> None:
    """Refuse a policy of another task, library or robot, or one whose actions mean something else."""
    header = read_header(checkpoint)
    for key in ("task", "runner", "robot"):
        there = header.get(key, getattr(trained, key))
        here = getattr(settings, key)
        if there != here:
            raise ConfigError(f"{given} comes from a run with {key}={there}, this one has {key}={here}.")

    there = _action_overrides(trained)
    here = _action_overrides(settings)
    if there != here:
        raise ConfigError(
            f"{given} acts otherwise than this run: it was trained with {' '.join(there) or 'no env.*'}, and this run "
            f"has {' '.join(here) or 'none'}. Give both runs the same."
        )


def _action_overrides(settings: RunSettings) -> list[str]:
    return sorted(text for text in settings.env_overrides if text.startswith(_ACTION_FIELDS))

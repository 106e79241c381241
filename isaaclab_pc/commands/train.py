# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/train.py``: check, find num_envs, make the run's folder, run the worker. Loads no torch."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.cluster.nodes import Place, find_place, run_follower_node
from isaaclab_pc.cluster.ranks import ranks_command
from isaaclab_pc.cluster.slurm import is_submitted, submit
from isaaclab_pc.cluster.start import check_cluster
from isaaclab_pc.commands.same_run import MAY_CHANGE, MAY_HARDEN, check_checkpoint, check_same_run
from isaaclab_pc.commands.train_to_end import train_to_end
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.algorithm import TRAIN, choose_algorithm, teacher_settings
from isaaclab_pc.launch.child_process import (
    GRACE_SECONDS,
    ExitCode,
    run_script,
    worker_command,
)
from isaaclab_pc.launch.command_line import EVERY_SETTING, Command, Takes, parse_command, split_own
from isaaclab_pc.launch.find_checkpoint import find_checkpoint, newest_checkpoint
from isaaclab_pc.launch.help import settings_table
from isaaclab_pc.launch.num_envs import num_envs_per_process
from isaaclab_pc.launch.kernel_cache import announce_first_start, check_kernel_cache
from isaaclab_pc.launch.platform import check_gpus, check_isaaclab, check_logger, choose_platform
from isaaclab_pc.launch.run_folder import (
    LOGS,
    RESUME_SETTINGS_NAME,
    SETTINGS_NAME,
    experiment_name,
    locked,
    make_run_folder,
    wait_for_worker,
    writing,
)
from isaaclab_pc.launch.run_record import CHECKPOINT_FOLDER, RECORD_NAME, RunData, RunRecord
from isaaclab_pc.launch.sweep import run_each
from isaaclab_pc.report.at_end import report_later
from isaaclab_pc.runners import require_library
from isaaclab_pc.scaling import ProbeError
from isaaclab_pc.scaling.retry import apply_overrides
from isaaclab_pc.settings import RunSettings, SubmitSettings
from isaaclab_pc.terminal.screen import current

__all__ = ["main"]

HELP = f"""\
Train a manipulation policy from depth-camera point clouds.

  python scripts/train.py [key=value ...]

Starts Isaac Lab, renders a depth camera in every environment, turns depth into a fixed-size point cloud, finds how
many environments this machine runs best, trains, checkpoints, evaluates, and prints the success rate with its 95 %
interval and the run's folder. No GPU and no Isaac Sim are needed. Ctrl-C writes a checkpoint and stops; a second Ctrl-C
stops at once.

Examples
  python scripts/train.py                                      reach, on this machine, as it comes
  python scripts/train.py task=lift num_envs=32 max_iterations=5    a short try of another task
  python scripts/train.py task=lift teacher=<run>              imitate a policy that was trained with obs=state
  python scripts/train.py task=lift teacher=train              train that policy first: no expert is needed
  python scripts/train.py task=lift init=pretrained env.randomization=hard    go on from a policy, with PPO
  python scripts/train.py runner=rl_games physics=newton_mjwarp     another library, another physics backend
  python scripts/train.py resume=latest                        go on with the latest run of this task
  python scripts/train.py env.episode_length_s=4 agent.algorithm.learning_rate=3e-4    any field of the task or agent
  python scripts/train.py gpus=4                               four GPUs, each with num_envs environments
  python scripts/train.py cluster=ray workers=4                four GPUs of a Ray cluster
  python scripts/train.py -m task=reach,lift seed=1,2,3        six runs, one after another
  python scripts/train.py -m task=reach,lift seed=1,2,3 hydra/launcher=slurm    six jobs of a cluster (docs/clusters.md)

{settings_table()}

{settings_table(lambda key: False, SubmitSettings)}

Everything else
  physics=<backend>  the same as physics.backend=<backend>
  env.*              a field of the task's config, e.g. env.scene.env_spacing=3
  agent.*            a field of the agent's config, e.g. agent.algorithm.gamma=0.98
  -m                 several values, separated by commas, are several runs
  hydra.launcher.*   of hydra/launcher=slurm: partition, timeout_min, gpus_per_node, ...; --cfg hydra shows all
  --cfg job          print the composed settings and stop;  --hydra-help: Hydra's own options

Exit codes
  0 done;  1 error;  2 settings that do not fit;  3 the learner met values that are not finite and was stopped;
  4 a storm, see guard.storm;  5 the disk is full;  75 stopped by Ctrl-C, SIGTERM, SIGUSR1, SIGUSR2 or SIGHUP:
  resume=<run> goes on from its last checkpoint, where one was written by then.
"""

TAKES = Takes(SubmitSettings, EVERY_SETTING, sweeps=True)

GOOD_TEACHER = 0.5
"""Success of a teacher below which it is not imitated."""


def main(argv: Sequence[str]) -> int:
    """Train, once or, with ``-m``, once for each combination of values.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code, an :class:`~isaaclab_pc.launch.child_process.ExitCode`; of several runs, the highest.
    """

    def work(arguments: Sequence[str]) -> int:
        options, others = split_own(arguments, SubmitSettings)
        command = parse_command(others, TAKES)
        if is_submitted(command):
            return submit(command, options, run, lambda settings, on_gpu: check(settings, command, options, on_gpu))
        if options != SubmitSettings():
            raise ConfigError("dry_run and image are for jobs of a cluster: give hydra/launcher=slurm as well.")
        return run_each(command, lambda settings: run(settings, command))

    return run_script(argv, HELP, work, when_stopped=ExitCode.PREEMPTED)


def run(settings: RunSettings, command: Command, name: str | None = None, requeued: bool = False) -> int:
    """Train one run.

    Args:
        settings: Its settings.
        command: The command line that they come from.
        name: Name of the run's folder, for a job of a cluster: where the folder holds a run, the job was requeued, and
            goes on with it. None: a new one.
        requeued: Whether the job was requeued. A run that it resumes goes on from its newest checkpoint then.

    Returns:
        The exit code.

    Raises:
        ConfigError: A setting does not fit.
    """
    check_isaaclab()
    check_kernel_cache()
    require_library(settings.runner)
    _check_stages(settings)
    place = find_place(settings)
    if not place.leads:
        return _follow(settings, place)
    if settings.resume is not None:
        if requeued:
            record, _ = find_checkpoint(settings.resume, LOGS, settings.runner, experiment_name(settings))
            code = _go_on_requeued(record.folder, settings, command)
            if code is not None:
                return code
        return _resume(settings, command)

    settings = choose_algorithm(choose_platform(settings))
    announce_first_start(settings.device)
    check_logger(settings)
    check_gpus(settings)
    check_cluster(settings)
    if settings.teacher == TRAIN:
        code, teacher = _train_teacher(settings, name)
        if teacher is None:
            return code
        settings = choose_algorithm(settings.with_values({"teacher": str(teacher)}))
    code, _ = _start(settings, name)
    return code


def check(settings: RunSettings, command: Command, options: SubmitSettings, on_gpu: bool) -> RunSettings:
    """Refuse settings that :func:`run` would refuse on the node of a cluster, as far as files tell.

    Args:
        settings: A run's settings.
        command: The command line that they come from.
        options: With an image, what is installed there is not known here.
        on_gpu: Whether the job will have a GPU.

    Returns:
        The settings, with the paths of the runs and checkpoints that ``latest`` and ``best`` mean now.

    Raises:
        ConfigError: A setting does not fit.
    """
    _check_stages(settings)
    if options.image is None:
        check_isaaclab()
        require_library(settings.runner)
        check_logger(settings)
    if settings.resume is not None:
        record, checkpoint = find_checkpoint(settings.resume, LOGS, settings.runner, experiment_name(settings))
        stored = RunSettings.load(record.folder / SETTINGS_NAME)
        check_same_run(settings, stored, command, record, checkpoint)
        is_newest = settings.resume == "latest" or Path(settings.resume) == record.folder
        return settings.with_values({"resume": str(record.folder if is_newest else checkpoint)})

    there = settings.with_values({"device": "cuda:0"}) if on_gpu and settings.device == "auto" else settings
    chosen = choose_algorithm(there if options.image is not None else choose_platform(there))
    return settings.with_values({"teacher": chosen.teacher, "init": chosen.init})


def _check_stages(settings: RunSettings) -> None:
    """Refuse two runs in one command where other nodes join one run."""
    if settings.teacher == TRAIN and settings.nodes > 1:
        raise ConfigError(
            f"teacher={TRAIN} with nodes={settings.nodes}: these are two runs. Train the teacher first, with "
            "obs=state, and give teacher=<its folder> then."
        )


def _train_teacher(student: RunSettings, name: str | None) -> tuple[int, Path | None]:
    """Train the policy that is to teach; returns the exit code and, where it is good enough, its checkpoint."""
    current().say("first the teacher, with obs=state")
    code, folder = _start(teacher_settings(student), name and f"{name}_teacher")
    if code != ExitCode.OK:
        if folder.exists():
            current().say(f"then teacher={folder} trains the student")
        return code, None

    record = RunRecord.load(folder)
    success = record.data.success
    if success is not None and success < GOOD_TEACHER:
        current().fail(
            f"the teacher solves {100 * success:.0f} % of its episodes, and a student seldom more: train it on "
            f"with resume={folder} max_iterations=<more>, then give teacher={folder}."
        )
        return ExitCode.FAILED, None
    return code, record.checkpoint("best")


def _start(settings: RunSettings, name: str | None = None) -> tuple[int, Path]:
    """Train a new run, or go on with that of a job; returns the exit code and the run's folder."""
    experiment = experiment_name(settings)
    folder = make_run_folder(LOGS, settings.runner, experiment, name)
    if (folder / RECORD_NAME).exists():
        code = _go_on_requeued(folder, settings, Command())
        if code is not None:
            return code, folder

    try:
        with writing(folder):
            settings.save(folder / SETTINGS_NAME)
            record = RunRecord.create(folder, settings, experiment)
    except ConfigError:
        _discard(folder)
        raise

    try:
        with locked(folder):
            if settings.num_envs == "auto":
                result = num_envs_per_process(settings, record.add_trial)
                settings = apply_overrides(settings, {"num_envs": result.num_envs, **result.overrides})
                settings.save(folder / SETTINGS_NAME)
                for trial in result.earlier_trials:
                    record.add_trial(trial)
                record.update(
                    num_envs=settings.num_envs, earlier_search=result.earlier_date or None, answer=result.answer
                )
            code = train_to_end(record, None, folder / SETTINGS_NAME)
    except ConfigError:
        _discard(folder)
        raise
    except ProbeError as error:
        record.finish("failed", error.trial.detail)
        current().fail(str(error))
        report_later(folder)
        return ExitCode.FAILED, folder
    except SystemExit:
        # Not where only the report was left to write.
        if record.data.status == "running":
            record.finish("interrupted")
        report_later(folder)
        raise

    if code == ExitCode.REFUSED:
        _discard(folder)
    return code, folder


def _discard(folder: Path) -> None:
    """Remove a run that was refused before its first checkpoint: bad input leaves nothing behind."""
    if not any((folder / CHECKPOINT_FOLDER).glob("*")):
        shutil.rmtree(folder)


def _go_on_requeued(folder: Path, asked: RunSettings, command: Command) -> int | None:
    """Go on with the run of a job that was requeued; None where it has no checkpoint, and begins anew."""
    # A node that failed may still hold the lock, on a network disk.
    with locked(folder, timeout=GRACE_SECONDS):
        wait_for_worker(folder)
        record = RunRecord.load(folder)
        if record.data.status == "completed":
            current().say(f"run: {folder} is done")
            return ExitCode.OK
        checkpoint = newest_checkpoint(record)
        return None if checkpoint is None else _go_on(asked, command, record, checkpoint)


def _resume(asked: RunSettings, command: Command) -> int:
    """Go on with a run: same folder, same settings, from its checkpoint to its last iteration."""
    assert asked.resume is not None
    record, checkpoint = find_checkpoint(asked.resume, LOGS, asked.runner, experiment_name(asked))
    with locked(record.folder):
        if wait_for_worker(record.folder):
            record, checkpoint = find_checkpoint(asked.resume, LOGS, asked.runner, experiment_name(asked))
        check_same_run(asked, RunSettings.load(record.folder / SETTINGS_NAME), command, record, checkpoint)
        return _go_on(asked, command, record, checkpoint)


def _go_on(asked: RunSettings, command: Command, record: RunRecord, checkpoint: Path) -> int:
    """Go on from a checkpoint of a run whose folder is locked."""
    stored = RunSettings.load(record.folder / SETTINGS_NAME)
    given = asked.flat()
    changes = {key: given[key] for key in (*MAY_CHANGE, *MAY_HARDEN) if key in command.given}
    # Whoever watched the run before need not watch it now.
    changes |= {"visualizer": asked.visualizer, "host": asked.host, "force": asked.force}
    if changes.get("nodes") == 1:
        changes |= {"node_rank": None, "rendezvous": None}
    settings = choose_algorithm(choose_platform(stored.with_values(changes)), begins=False)
    if settings.nodes != asked.nodes:
        # Without nodes=, this machine did not ask which node it is.
        raise ConfigError(
            f"resume={record.folder}: it has nodes={settings.nodes}. Give nodes={settings.nodes} on each of them, or "
            "nodes=1 to go on with this machine alone."
        )
    announce_first_start(settings.device)
    check_logger(settings)
    check_gpus(settings)
    check_cluster(settings)
    check_checkpoint(checkpoint, settings)

    before = record.data.model_copy(deep=True)
    wanted = record.folder / RESUME_SETTINGS_NAME
    resumed = [*record.data.resumed, checkpoint.name]
    try:
        with writing(record.folder):
            settings.save(wanted)
            record.go_on(checkpoint, resumed=resumed)
        current().decide(f"resuming from {checkpoint}", resume=str(checkpoint))
        code = train_to_end(record, checkpoint, wanted)
    except ConfigError:
        _restore(record, before)
        raise
    finally:
        wanted.unlink(missing_ok=True)
    if code == ExitCode.REFUSED:
        _restore(record, before)
    return code


def _restore(record: RunRecord, before: RunData) -> None:
    """Leave a run as it was before it was refused to go on."""
    record.data = before
    # A disk that is full has refused the change, too: the file is as it was.
    with contextlib.suppress(OSError):
        record.update()


def _follow(settings: RunSettings, place: Place) -> int:
    """Train along with a run that another node leads, which also knows its settings."""
    check_gpus(choose_platform(settings))

    def command(path: Path, patience: int) -> list[str]:
        return ranks_command(settings.gpus, worker_command("train", path), place, patience)

    return run_follower_node(settings, place, command)

# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/train.py``: train a run, or go on with one. Loads no torch."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from isaaclab_pc.cli.command_line import EVERY_SETTING, Command, Takes, parse_command, split_own
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.cli.sweep import run_each
from isaaclab_pc.cluster.nodes import Place, find_place
from isaaclab_pc.cluster.slurm import SubmitSettings, is_submitted, submit
from isaaclab_pc.commands.prepare import prepare, prepare_training
from isaaclab_pc.commands.resume import find_run, go_on_requeued, resume
from isaaclab_pc.commands.train_to_end import train_to_end
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import require_library
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.report.at_end import report_later
from isaaclab_pc.run.algorithm import TRAIN, choose_algorithm, teacher_settings
from isaaclab_pc.run.folder import SETTINGS_NAME, locked, make_run_folder, writing
from isaaclab_pc.run.jobs import TrainJob, worker_command
from isaaclab_pc.run.platform import check_gpus, check_isaaclab, check_logger, choose_platform
from isaaclab_pc.run.record import CHECKPOINT_FOLDER, RECORD_NAME, RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

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
  python scripts/train.py task=lift demos=<file>               imitate what scripts/demo.py recorded, and nothing else
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


@script(HELP, when_stopped=ExitCode.PREEMPTED)
def main(argv: Sequence[str]) -> int:
    """Train, once or, with ``-m``, once for each combination of values; return the highest exit code."""
    options, others = split_own(argv, SubmitSettings)
    command = parse_command(others, TAKES)
    if is_submitted(command):
        return submit(command, options, run, lambda settings, on_gpu: check(settings, command, options, on_gpu))
    if options != SubmitSettings():
        raise ConfigError("dry_run and image are for jobs of a cluster: give hydra/launcher=slurm as well.")
    return run_each(command, lambda settings: run(settings, command))


def run(settings: RunSettings, command: Command, name: str | None = None, requeued: bool = False) -> int:
    """Train one run; return the exit code.

    ``name`` is that of the run's folder, None: a new one; a requeued job of a cluster goes on with the run in it. A run
    that a ``requeued`` job resumes goes on from its newest checkpoint.

    Raises:
        ConfigError: A setting does not fit.
    """
    _check_stages(settings)
    place = find_place(settings)
    if not place.leads:
        return _follow(settings, place)
    if settings.resume is not None:
        return resume(settings, command, requeued=requeued)

    settings = prepare_training(settings)
    if settings.teacher == TRAIN:
        code, teacher = _train_teacher(settings, name)
        if teacher is None:
            return code
        settings = choose_algorithm(settings.with_values({"teacher": str(teacher)}))
    code, _ = _train_new(settings, name)
    return code


def _train_new(settings: RunSettings, name: str | None) -> tuple[int, Path]:
    """Train a new run, or go on with that of a requeued job; return the exit code and the run's folder."""
    folder = make_run_folder(settings, name)
    if (folder / RECORD_NAME).exists():
        code = go_on_requeued(folder, settings, Command())
        if code is not None:
            return code, folder

    try:
        with writing(folder):
            settings.save(folder / SETTINGS_NAME)
            record = RunRecord.create(folder, settings)
        code = _search_and_train(record, settings)
    except ConfigError:
        _discard(folder)
        raise
    if code == ExitCode.REFUSED:
        _discard(folder)
    return code, folder


def _search_and_train(record: RunRecord, settings: RunSettings) -> int:
    try:
        with locked(record.folder):
            if settings.num_envs == "auto":
                # Here, as a number that is given needs no search.
                from isaaclab_pc.commands.num_envs import find_for_run

                found = find_for_run(settings, record)
                if found is None:
                    return ExitCode.FAILED
                settings = found
            return train_to_end(record, TrainJob(settings))
    except SystemExit:
        # Not where only the report was left to write.
        if record.data.status == "running":
            record.finish("interrupted")
        report_later(record.folder)
        raise


def _discard(folder: Path) -> None:
    """Remove a run that was refused before its first checkpoint: bad input leaves nothing behind."""
    if not any((folder / CHECKPOINT_FOLDER).glob("*")):
        shutil.rmtree(folder)


def _train_teacher(student: RunSettings, name: str | None) -> tuple[int, Path | None]:
    """Train the policy that is to teach; return the exit code and, where it is good enough, its checkpoint."""
    current().say("first the teacher, with obs=state")
    code, folder = _train_new(teacher_settings(student), name and f"{name}_teacher")
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


def _follow(settings: RunSettings, place: Place) -> int:
    """Train along with a run that another node leads, which also knows its settings."""
    from isaaclab_pc.cluster.nodes import run_follower_node
    from isaaclab_pc.cluster.ranks import ranks_command

    require_library(settings.runner)
    check_gpus(prepare(settings))

    def command(path: Path, patience: int) -> list[str]:
        return ranks_command(settings.gpus, worker_command(TrainJob(settings), path), place, patience)

    return run_follower_node(settings, place, command)


def check(settings: RunSettings, command: Command, options: SubmitSettings, on_gpu: bool) -> RunSettings:
    """Refuse settings that :func:`run` would refuse on the node of a cluster, as far as files tell.

    Returns:
        The settings, with paths in place of ``latest`` and ``best``.

    Raises:
        ConfigError: A setting does not fit.
    """
    _check_stages(settings)
    if options.image is None:
        check_isaaclab()
        require_library(settings.runner)
        check_logger(settings)
    if settings.resume is not None:
        record, checkpoint = find_run(settings, command)
        is_newest = settings.resume == "latest" or Path(settings.resume) == record.folder
        return settings.with_values({"resume": str(record.folder if is_newest else checkpoint)})

    there = settings.with_values({"device": "cuda:0"}) if on_gpu and settings.device == "auto" else settings
    chosen = choose_algorithm(there if options.image is not None else choose_platform(there))
    return settings.with_values({"teacher": chosen.teacher, "demos": chosen.demos, "init": chosen.init})


def _check_stages(settings: RunSettings) -> None:
    """Refuse two runs in one command where other nodes join one run."""
    if settings.teacher == TRAIN and settings.nodes > 1:
        raise ConfigError(
            f"teacher={TRAIN} with nodes={settings.nodes}: these are two runs. Train the teacher first, with "
            "obs=state, and give teacher=<its folder> then."
        )

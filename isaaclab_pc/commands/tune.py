# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/tune.py``: search for better settings with Ray Tune. Loads no torch, and Ray only where trials start."""

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from isaaclab_pc.cli.command_line import Command, Takes, keys_of, parse_command, parse_script_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.cluster.search_space import SearchSpace, draw, read_space
from isaaclab_pc.cluster.tuning import TUNING_NAME, TrialShare, Tuning, best_trial, divide_machine, divided_budget
from isaaclab_pc.commands.num_envs import find_num_envs
from isaaclab_pc.commands.tune_results import report, tuning_display
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import require_library
from isaaclab_pc.num_envs.fit import ProbeError
from isaaclab_pc.num_envs.memory import usable_cores
from isaaclab_pc.num_envs.retry import apply_overrides
from isaaclab_pc.num_envs.trial import SettingValue
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.algorithm import TRAIN, choose_algorithm
from isaaclab_pc.run.folder import LOGS, SETTINGS_NAME, experiment_name, locked, make_folder, writing
from isaaclab_pc.run.jobs import CheckJob, launch_worker
from isaaclab_pc.run.platform import check_isaaclab, choose_platform, gpu_count
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.settings.run import SETTINGS
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import Lines, current, use
from isaaclab_pc.utils.packages import is_installed


class TuneSettings(ScriptSettings):
    """The settings of a tuning, besides those of its runs."""

    tuner: Literal["asha", "random"] = "asha"
    """asha lets the best third of the trials go on at each of its marks and ends the others; random lets all come to
    their end."""

    samples: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Trials, each with other values; fewer where there are no more combinations."""

    metric: Literal["auto", "success_rate", "mean_reward", "Perf/total_fps"] = "auto"
    """Metric to maximize. auto: success_rate, or mean_reward for tasks of other packages."""

    grace_iterations: Annotated[int, Field(ge=1)] | None = None
    """Iterations before asha ends a trial; null: a ninth of all."""

    concurrent: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Trials at once, which share cores, GPUs and their memory; null: one on each GPU, or one on the CPU."""

    resume: str | None = None
    """Folder of a tuning: trials that have ended stay, all others go on from their checkpoints."""


NOT_SEARCHED = (*("task", "runner", "num_envs", "device", "max_iterations"), *("scaling.", "supervise.", "eval."))
"""Settings of a run, and groups of them, that are the same in all trials: trials must be comparable."""

NOT_TAKEN = (
    *("resume", "visualizer", "host", "force", "supervise.enabled"),
    *("gpus", "nodes", "node_rank", "rendezvous", "cluster", "workers"),
)
"""Settings of a run that a trial has no use for: it has a supervisor and one GPU, and trials share the others."""

MAY_CHANGE = (*(key for key in SETTINGS if key not in NOT_TAKEN), "physics.", "env.", "agent.")
"""Settings of a run that this script takes."""

TAKES = Takes(TuneSettings, MAY_CHANGE)

TRIAL = ("-P", "-m", "isaaclab_pc.commands.trial")
"""Arguments of Python that train the run in a folder, which is added."""

HELP = f"""\
Search for settings that train better, with Ray Tune: pip install 'isaaclab_pc[cluster]'.

  python scripts/tune.py [key=value ...] key=<several values> ...

Any setting that changes a run's result may have several values, and so may env.* and agent.*:
  a,b,c  or  choice(a,b,c)          one of these
  range(1,10,2)                     1, 3, 5, 7 or 9
  interval(0.1,0.9)                 a number from 0.1 to 0.9;  int(interval(1,9)): a whole one
  tag(log,interval(1e-5,1e-3))      the same, drawn by its logarithm
All values are drawn and checked before the first trial starts. Every trial is an ordinary run, with its supervisor,
in logs/tune/<task>/<time>/<trial>: it can be played and trained on. num_envs=auto is found once, for all. Ctrl-C lets
all trials write a checkpoint and prints the command that goes on.

Examples
  python scripts/tune.py task=lift samples=20 'agent.algorithm.learning_rate=tag(log,interval(1e-5,1e-3))'
  python scripts/tune.py task=lift algorithm=ppo 'agent.algorithm.gamma=choice(0.97,0.98,0.99)' seed=1,2 tuner=random
  python scripts/tune.py task=lift points.num_points=128,256,512 points.sampler=random,fps
  python scripts/tune.py resume=logs/tune/lift/<time>               go on with a tuning that was stopped

{settings_table(lambda key: False, TuneSettings)}

All settings of scripts/train.py, see its --help or docs/settings.md, but
{", ".join(NOT_TAKEN)}.
These have one value: {", ".join(name.rstrip(".") for name in NOT_SEARCHED)}.

The results stand in results.csv of the tuning's folder.

Exit codes: 0; 1 where no trial came to its end, or Ray lost one for good; 2 for wrong settings; 75 stopped by Ctrl-C or
another signal: resume=<folder> goes on.
"""


@script(HELP, when_stopped=ExitCode.PREEMPTED)
def main(argv: Sequence[str]) -> int:
    """Tune, or go on with a tuning."""
    check_isaaclab()
    spaces, others = _split(argv)
    own, command = parse_script_command(others, TAKES)
    if not is_installed("ray"):
        raise ConfigError("Ray is not installed: pip install 'isaaclab_pc[cluster]'.")

    if own.resume is not None:
        given = {text.partition("=")[0] for text in argv} - {"resume"}
        if given:
            raise ConfigError(
                f"{', '.join(sorted(given))}: a tuning that goes on keeps its settings: give resume alone."
            )
        folder = Path(own.resume)
        return _tune(folder, Tuning.load(folder))
    if not spaces:
        raise ConfigError(
            "no setting has several values to search over: give one, such as "
            "'agent.algorithm.learning_rate=tag(log,interval(1e-5,1e-3))'."
        )
    try:
        folder, tuning = _prepare(own, spaces, command)
    except ProbeError as error:
        current().fail(str(error))
        return ExitCode.FAILED
    return _tune(folder, tuning)


def _split(argv: Sequence[str]) -> tuple[list[SearchSpace], list[str]]:
    """Take the settings with several values out of a command line."""
    spaces: list[SearchSpace] = []
    others = []
    may_change = keys_of(*MAY_CHANGE)
    fixed = keys_of(*NOT_SEARCHED)
    for argument in argv:
        key, separator, _ = argument.partition("=")
        space = read_space(argument) if separator and may_change(key) else None
        if space is None:
            others.append(argument)
            continue
        if fixed(key):
            raise ConfigError(f"{argument}: {key} is the same for all trials of a tuning; give one value.")
        spaces.append(space)

    keys = [text.partition("=")[0] for text in argv]
    for space in spaces:
        if keys.count(space.key) > 1:
            raise ConfigError(f"{space.key} is given twice.")
    return spaces, others


def _prepare(own: TuneSettings, spaces: Sequence[SearchSpace], command: Command) -> tuple[Path, Tuning]:
    """Draw and check all trials, measure one, and write the tuning's folder."""
    largest = _settings(command, {space.key: space.highest for space in spaces})
    _check_fits_ray(largest)
    drawn = draw(spaces, own.samples, largest.seed)
    if len(drawn) < own.samples:
        current().decide(f"samples={len(drawn)}: there are no more combinations", samples=len(drawn))
    with use(Lines(io.StringIO())):
        # What is decided for one trial has been shown.
        runs = [_settings(command, values) for values in drawn]
    max_iterations = _check_configs([largest, *runs])
    grace = own.grace_iterations or max(max_iterations // 9, 1)
    if grace > max_iterations:
        raise ConfigError(f"grace_iterations={grace}: a trial has {max_iterations} iterations.")

    share = divide_machine(largest, len(runs), own.concurrent)
    overrides = _find_num_envs(largest, share)
    metric = own.metric
    if metric == "auto":
        metric = "success_rate" if largest.task in our_tasks().values() else "mean_reward"
    given = [text for text in command.settings if not text.startswith("num_envs=")]
    tuning = Tuning(
        tuner=own.tuner,
        metric=metric,
        max_iterations=max_iterations,
        grace_iterations=grace,
        fixed=(*given, *command.env, *command.agent, *(f"{key}={value}" for key, value in overrides.items())),
        trials={f"{number:03d}": values for number, values in enumerate(drawn)},
        max_failures=largest.supervise.max_restarts,
        share=share,
    )
    folder = make_folder(LOGS / "tune" / experiment_name(largest))
    with writing(folder):
        for name, settings in zip(tuning.trials, runs, strict=True):
            (folder / name).mkdir()
            apply_overrides(settings, overrides).save(folder / name / SETTINGS_NAME)
        tuning.write(folder / TUNING_NAME)
    return folder, tuning


def _settings(command: Command, values: Mapping[str, str]) -> RunSettings:
    """Compose the settings of one trial, complete but for ``num_envs=auto``."""
    one = parse_command([f"{key}={value}" for key, value in values.items()])
    settings = compose([*command.settings, *one.settings], [*command.env, *one.env], [*command.agent, *one.agent])
    return choose_algorithm(choose_platform(settings))


def _check_fits_ray(settings: RunSettings) -> None:
    require_library(settings.runner)
    if settings.teacher == TRAIN:
        raise ConfigError(f"teacher={TRAIN}: a trial is one run. Search for the teacher first, with obs=state.")
    if settings.device not in ("cpu", "cuda:0"):
        number = settings.device.removeprefix("cuda:")
        raise ConfigError(
            f"device={settings.device}: Ray gives trials their GPU: CUDA_VISIBLE_DEVICES={number} device=cuda."
        )


def _check_configs(runs: Sequence[RunSettings]) -> int:
    """Check runs against the configs of task and agent in a child; return the iterations that all have."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        result = folder / "iterations.json"
        code = launch_worker(CheckJob(tuple(runs), result), folder, keep_log=True)
        if code != ExitCode.OK:
            # The error has been shown.
            raise SystemExit(code)
        iterations: list[int] = json.loads(result.read_text(encoding="utf-8"))
    if len(iterations) > 1:
        numbers = ", ".join(map(str, iterations))
        raise ConfigError(f"trials would have {numbers} iterations: give max_iterations, so that all have as many.")
    return iterations[0]


def _find_num_envs(largest: RunSettings, share: TrialShare) -> dict[str, SettingValue]:
    """Find the number of environments of all trials within the share of one; try a given one if memory is shared."""
    if largest.num_envs != "auto" and share.sharing == 1:
        return {"num_envs": largest.num_envs}
    within_share = largest.with_values({"scaling.budget": divided_budget(largest, share.sharing)})
    try:
        found = find_num_envs(within_share, lambda trial: None)
    except ConfigError as error:
        if share.sharing == 1:
            raise
        raise ConfigError(f"concurrent={share.concurrent}: {error} With fewer at once, each has more memory.") from None
    return {"num_envs": found.num_envs, **found.overrides}


def _tune(folder: Path, tuning: Tuning) -> int:
    # Ray takes seconds to load, which nothing above needs to wait for.
    from isaaclab_pc.cluster.ray_tune import run_trials

    # A trial that goes on where there are fewer cores would wait forever.
    machine = {"num_cpus": max(usable_cores(), tuning.share.cpus), "num_gpus": gpu_count() if tuning.share.gpus else 0}
    screen = current()
    with locked(folder):
        screen.made("tuning", folder)
        size = f"{len(tuning.trials)} trials of {tuning.max_iterations} iterations"
        screen.begin("tune", f"{size}, {tuning.tuner} by {tuning.metric}")
        refresh = tuning_display(folder, tuning)
        try:
            errors = run_trials(folder, tuning, TRIAL, machine, refresh)
        finally:
            refresh()
            screen.end_phase()
            trials = report(folder, tuning)
            unfinished = sum(not trial.is_over for trial in trials)
            if unfinished:
                again = command_line("tune", f"resume={folder}")
                screen.say(f"{unfinished} trials have not ended; this goes on: {again}")

    for error in errors:
        current().fail(error)
    if errors or not (unfinished or best_trial(trials)):
        return ExitCode.FAILED
    return ExitCode.PREEMPTED if unfinished else ExitCode.OK

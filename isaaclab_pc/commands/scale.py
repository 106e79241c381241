# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py``: how many environments fit, their memory by kind, and the physics that they bear.

Loads no torch.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from isaaclab_pc.cli.command_line import EVERY_SETTING, Command, Takes, parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.cluster.start import check_cluster
from isaaclab_pc.commands.num_envs import num_envs_per_process
from isaaclab_pc.commands.prepare import prepare
from isaaclab_pc.commands.stability import measure_stability
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import require_library
from isaaclab_pc.num_envs.answer_parts import settings_that_matter
from isaaclab_pc.num_envs.fit import FitResult, ProbeError
from isaaclab_pc.num_envs.ledger import (
    TRIALS_NAME,
    Ledger,
    TrialsFile,
    find_earlier_trials,
    measured_ledger,
    planned_ledger,
)
from isaaclab_pc.num_envs.preflight import Plan
from isaaclab_pc.num_envs.profile import ProfileCache, cache_key
from isaaclab_pc.num_envs.search import RESOLUTION, Objective
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trends import (
    TOLERANCE,
    capacity,
    fits_with_margin,
    pooled_speeds,
    smallest_near_best,
    telling,
)
from isaaclab_pc.num_envs.trial import Trial
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.report.words import memory
from isaaclab_pc.run.algorithm import TRAIN, choose_algorithm
from isaaclab_pc.run.folder import LOGS, SETTINGS_NAME, experiment_name, make_folder
from isaaclab_pc.run.jobs import PlanJob, launch_worker
from isaaclab_pc.run.platform import check_gpus
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console

HELP = f"""\
Find how many environments a task can train with on this machine, and show what their memory is made of.

  python scripts/scale.py [--plan | --list | --stability] [key=value ...]

Sizes are tried for real: each trial is a child process that builds the environment and the agent, collects rollouts and
updates the policy, while its memory is metered from outside; one that passes the budget is ended. The answer is
remembered, so scripts/train.py with the same settings starts with it. The trials, the ledger and a picture are written
to logs/scale/<task>/<time>.

Examples
  python scripts/scale.py task=lift                              the number that trains fastest
  python scripts/scale.py task=lift scaling.budget=4GiB          inside 4 GiB
  python scripts/scale.py task=lift scaling.objective=memory     the most that fits
  python scripts/scale.py task=lift num_envs=512                 what 512 environments would take: one trial
  python scripts/scale.py task=lift gpus=2                       a number that both of two GPUs bear
  python scripts/scale.py --plan task=lift num_envs=1024         what 1024 would take, by trials that ran already
  python scripts/scale.py --list                                 all remembered answers
  python scripts/scale.py --stability task=lift physics=newton_mjwarp   which time steps and iterations the task bears
  python scripts/scale.py --stability task=lift physics.position_iterations=8   the same with 8 iterations throughout

With --stability, the environments (64 unless num_envs is given) run under a small grid of time steps or substeps and
solver iterations, at the task's own control rate and with obs=state unless obs is given. Each setting gets a child
process, in which the task's expert runs, where it has one (eval.episodes of it; one for each environment
unless given), and then random actions over the full range for half a minute. The table tells failures (environments
that the guard ended) per million environment steps, the expert's success, and seconds per 1000 environment
steps (on the CPU this is CPU time, which other work on the machine hardly changes);
"0 (< 40)" means that none was seen and that the rate is below 40 with 95 % confidence. A setting holds where nothing
failed and the expert's success is within 5 points of the best; the cheapest is printed as a command line. physics.*
settings that are given stay as they are. Ctrl-C keeps what was measured.

{settings_table()}

Here scaling.cache is refresh unless it is given: a search is what this script is for. env.* and agent.* are as in
scripts/train.py.

Exit codes: 0; 2 for wrong settings or where nothing fits; 128 + N after a signal N; 1 otherwise.
"""

OPTIONS = ("--plan", "--list", "--stability")
TAKES = Takes(run=EVERY_SETTING, options=OPTIONS)

LEDGER_NAME = "ledger.json"


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Search, plan, list or measure stability; return the exit code, as in :data:`HELP`."""
    options = {argument for argument in argv if argument in OPTIONS}
    command = parse_command([argument for argument in argv if argument not in OPTIONS], TAKES)
    if "resume" in command.given:
        raise ConfigError("resume has no use here, where nothing is trained: give the settings of the run instead.")
    if len(options) > 1:
        raise ConfigError(f"{' and '.join(sorted(options))} are different questions: give one of them.")

    if "--list" in options:
        return show_profiles()
    if "--stability" in options:
        if "visualizer" in command.given:
            raise ConfigError("visualizer has no use with --stability, where nothing is watched.")
        return measure_stability(command, compose_for_platform(command))
    try:
        return run(command, plan="--plan" in options)
    except ProbeError as error:
        current().fail(str(error))
        return ExitCode.FAILED


def compose_for_platform(command: Command, *, builds: bool = True) -> RunSettings:
    """Compose the settings of a command line, with the device and the physics backend that will run."""
    settings = compose(command.settings, command.env, command.agent)
    require_library(settings.runner)
    return prepare(settings, builds=builds)


def run(command: Command, *, plan: bool) -> int:
    """Search for the number of environments, or tell the memory of one from earlier trials."""
    settings = choose_algorithm(compose_for_platform(command, builds=not plan))
    check_gpus(settings)
    check_cluster(settings)
    if settings.teacher == TRAIN:
        raise ConfigError(f"teacher={TRAIN}: there is nothing to measure yet; give obs=state for the teacher's run.")
    if "scaling.cache" not in command.given:
        settings = settings.with_values({"scaling.cache": "refresh"})
    if plan:
        return _plan(settings, command)

    folder = make_folder(LOGS / "scale" / experiment_name(settings))
    settings.save(folder / SETTINGS_NAME)
    trials: list[Trial] = []
    try:
        result = num_envs_per_process(settings, trials.append)
    finally:
        # Also what was tried before an error or Ctrl-C; where nothing was, nothing stays.
        if trials:
            TrialsFile(_run_digest(settings), tuple(trials)).write(folder / TRIALS_NAME)
        else:
            shutil.rmtree(folder)
    _show(result, settings, folder)
    return ExitCode.OK


def _show(result: FitResult, settings: RunSettings, folder: Path) -> None:
    """Print the other objective's choice and the ledger of the winner, and save the picture."""
    if not result.trials:
        return
    other = other_answer(result.trials, SearchSettings.of(settings).resolved_objective)
    if other:
        current().say(other)
    ledger = measured_ledger(result.trials, result.num_envs)
    if ledger is not None:
        text = json.dumps(asdict(ledger), indent=1, default=str)
        (folder / LEDGER_NAME).write_text(f"{text}\n", encoding="utf-8")
        _print_ledger(ledger, "measured")

    from isaaclab_pc.report.search_figures import save_search_plot

    title = f"{settings.task}, {settings.runner}, {settings.physics.backend}, {settings.device}"
    picture = folder / "memory.png"
    save_search_plot(result.trials, result.num_envs, title, picture)
    current().made("picture", picture)


def other_answer(trials: Sequence[Trial], objective: Objective) -> str:
    """Describe the other objective's choice; empty where less than two sizes fitted, or none meets a limit."""
    if len(telling(trials)) < 2:
        return ""
    if objective is Objective.MEMORY:
        speeds = pooled_speeds(trials)
        fewest = smallest_near_best(speeds)
        return (
            f"of those that were tried, num_envs={fewest} are the fewest within {TOLERANCE:.0%} of the best frames per "
            f"second ({speeds[fewest]:.0f} frames/s); scaling.objective=throughput searches for them"
        )

    largest = max((trial.num_envs for trial in trials if fits_with_margin(trial)), default=0)
    predicted = capacity(trials)
    if math.isinf(predicted):
        return ""
    if predicted < largest * (1 + RESOLUTION):
        return f"num_envs={largest} is the most that fits, and was tried"
    return (
        f"about {float(f'{predicted:.2g}'):,.0f} environments are predicted to fit, which was not tried: "
        "scaling.objective=memory does"
    )


def _plan(settings: RunSettings, command: Command) -> int:
    """Print the memory of a size by earlier trials, and the batches and problems that a child reads off the configs."""
    num_envs = SearchSettings.of(settings).sizes.start
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "plan.json"
        code = launch_worker(PlanJob(settings, num_envs, path), Path(scratch), keep_log=True)
        if code != ExitCode.OK:
            return code
        plan = Plan.read(path)

    _print_planned_memory(settings, num_envs, command)
    for finding in plan.findings:
        print(finding)
    print(
        f"batch: {plan.batch.horizon} steps of {num_envs} environments, {plan.batch.num_minibatches} minibatches of "
        f"{plan.batch.minibatch_size} samples"
    )
    return ExitCode.OK


def _print_planned_memory(settings: RunSettings, num_envs: int, command: Command) -> None:
    """Print the ledger of a size by earlier trials and name these, or offer to run those that are missing."""
    earlier = find_earlier_trials(_run_digest(settings), LOGS / "scale")
    sizes = sorted(trial.num_envs for trial in earlier.trials)
    ledger = planned_ledger(earlier.trials, num_envs)
    if ledger is not None:
        tried = ", ".join(map(str, sizes))
        how = "measured" if ledger.num_envs in sizes else f"not tried, from trials of {tried}"
        _print_ledger(ledger, how)
        print(f"trials of num_envs={tried} in {', '.join(earlier.folders)}")
    if len(sizes) < 2:
        own = ("num_envs=", "scaling.objective=", "scaling.max_trials=")
        given = [text for text in command.settings if not text.startswith(own)]
        two = ["scaling.objective=memory", "scaling.max_trials=2"]
        known = "one size tells no growth" if sizes else "no trial of these settings has left its memory here"
        print(f"{known}: run two with {command_line('scale', *given, *command.env, *command.agent, *two)}")


def _run_digest(settings: RunSettings) -> str:
    """Return the digest by which trials of the same run are found."""
    return cache_key({"settings": settings_that_matter(settings), "device": settings.device.partition(":")[0]})


def _print_ledger(ledger: Ledger, how: str) -> None:
    sizes = ("total", "fixed", "per environment")
    rows = [(entry.kind, *map(memory, (entry.total, entry.fixed, entry.per_env))) for entry in ledger.entries]
    table = make_table(f"Memory at num_envs={ledger.num_envs}, {how}", ("", *sizes), rows, sizes)
    table.add_section()
    parts = ([entry.fixed for entry in ledger.entries], [entry.per_env for entry in ledger.entries])
    sums = (None if None in sizes else sum(filter(None, sizes)) for sizes in parts)
    table.add_row("sum", *map(memory, (ledger.total, *sums)))
    table_console(120).print(table)


def show_profiles() -> int:
    """Print all answers that earlier searches left, the newest first; return the exit code."""
    cache = ProfileCache()
    profiles = cache.all()[::-1]
    if not profiles:
        print(f"no search has left an answer yet ({cache.path})")
        return ExitCode.OK

    numbers = ("num_envs", "frames/s", "host memory", "GPU memory")
    rows = []
    for profile in profiles:
        memories = map(memory, (profile.host_bytes, profile.device_bytes))
        found = (str(profile.num_envs), f"{profile.frames_per_second:.0f}", *memories)
        rows.append((profile.label, *found, profile.stop, profile.date))
    title = f"Answers of earlier searches ({cache.path})"
    table_console(160).print(make_table(title, ("what", *numbers, "search", "date"), rows, numbers))
    return ExitCode.OK

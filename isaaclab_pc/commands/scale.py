# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py``: how many environments fit, their memory by kind, and the physics that they bear.

Loads no torch.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from isaaclab_pc.cli.command_line import EVERY_SETTING, Command, Takes, parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.commands.num_envs import num_envs_per_process
from isaaclab_pc.commands.prepare import prepare, prepare_training
from isaaclab_pc.commands.stability import measure_stability
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import FitResult, ProbeError
from isaaclab_pc.num_envs.ledger import Ledger, measured_ledger
from isaaclab_pc.num_envs.trial import Trial
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.report.words import memory
from isaaclab_pc.run.algorithm import TRAIN
from isaaclab_pc.run.folder import LOGS, SETTINGS_NAME, experiment_name, make_folder
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console

HELP = f"""\
Find how many environments a task can train with on this machine, and show what their memory is made of.

  python scripts/scale.py [--stability] [key=value ...]

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

STABILITY = "--stability"
TAKES = Takes(run=EVERY_SETTING, options=(STABILITY,))


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Search, or measure stability; return the exit code, as in :data:`HELP`."""
    command = parse_command([argument for argument in argv if argument != STABILITY], TAKES)
    if "resume" in command.given:
        raise ConfigError("resume has no use here, where nothing is trained: give the settings of the run instead.")
    if STABILITY in argv:
        if "visualizer" in command.given:
            raise ConfigError("visualizer has no use with --stability, where nothing is watched.")
        return measure_stability(command, prepare(compose(command.settings, command.env, command.agent)))
    try:
        return run(command)
    except ProbeError as error:
        current().fail(str(error))
        return ExitCode.FAILED


def run(command: Command) -> int:
    """Search for the number of environments."""
    settings = prepare_training(compose(command.settings, command.env, command.agent))
    if settings.teacher == TRAIN:
        raise ConfigError(f"teacher={TRAIN}: there is nothing to measure yet; give obs=state for the teacher's run.")
    if "scaling.cache" not in command.given:
        settings = settings.with_values({"scaling.cache": "refresh"})

    folder = make_folder(LOGS / "scale" / experiment_name(settings))
    settings.save(folder / SETTINGS_NAME)
    trials: list[Trial] = []
    try:
        result = num_envs_per_process(settings, trials.append)
    finally:
        # Also what was tried before an error or Ctrl-C; where nothing was, nothing stays.
        if trials:
            text = json.dumps({"trials": [trial.to_dict() for trial in trials]}, indent=1)
            (folder / "trials.json").write_text(f"{text}\n", encoding="utf-8")
        else:
            shutil.rmtree(folder)
    _show(result, settings, folder)
    return ExitCode.OK


def _show(result: FitResult, settings: RunSettings, folder: Path) -> None:
    if not result.trials:
        return
    ledger = measured_ledger(result.trials, result.num_envs)
    if ledger is not None:
        text = json.dumps(asdict(ledger), indent=1, default=str)
        (folder / "ledger.json").write_text(f"{text}\n", encoding="utf-8")
        _print_ledger(ledger)

    from isaaclab_pc.report.search_figures import save_search_plot

    title = f"{settings.task}, {settings.runner}, {settings.physics.backend}, {settings.device}"
    picture = folder / "memory.png"
    save_search_plot(result.trials, result.num_envs, title, picture)
    current().made("picture", picture)


def _print_ledger(ledger: Ledger) -> None:
    sizes = ("total", "fixed", "per environment")
    rows = [(entry.kind, *map(memory, (entry.total, entry.fixed, entry.per_env))) for entry in ledger.entries]
    table = make_table(f"Memory at num_envs={ledger.num_envs}", ("", *sizes), rows, sizes)
    table.add_section()
    parts = ([entry.fixed for entry in ledger.entries], [entry.per_env for entry in ledger.entries])
    sums = (None if None in sizes else sum(filter(None, sizes)) for sizes in parts)
    table.add_row("sum", *map(memory, (ledger.total, *sums)))
    table_console(120).print(table)

# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/scale.py``: how many environments fit, what their memory is made of, and what physics they bear.

Loads no torch.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from isaaclab_pc.commands.stability import measure_stability
from isaaclab_pc.commands.train import LOGS, experiment_name, probe_command, show_log
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.child_process import ExitCode, run_child, run_script, worker_command
from isaaclab_pc.launch.compose import Command, compose, parse_command, save_config
from isaaclab_pc.launch.platform import check_isaaclab, check_runner, settle_platform
from isaaclab_pc.launch.run_record import CONFIG_NAME, make_folder, versions
from isaaclab_pc.scaling import FitResult, ProbeError, ScalingSettings, Trial
from isaaclab_pc.scaling.auto_num_envs import find_num_envs
from isaaclab_pc.scaling.earlier_trials import TRIALS_NAME, RunKind, TrialsFile
from isaaclab_pc.scaling.ledger import Ledger, measured_ledger, predicted_ledger
from isaaclab_pc.scaling.plan_report import PlanReport
from isaaclab_pc.scaling.profile import ProfileCache
from isaaclab_pc.scaling.several_gpus import find_num_envs_for_gpus
from isaaclab_pc.scaling.trial import format_size

__all__ = ["main"]

HELP = """\
Find how many environments a task can train with on this machine, and show what their memory is made of.

  python scripts/scale.py [--plan | --list | --stability] [key=value ...]

Sizes are tried for real: each trial is a child process that builds the environment and the agent, collects rollouts and
updates the policy, while its memory is metered from outside; one that passes the budget is ended. The answer is
remembered, so scripts/train.py with the same settings starts with it. The trials, the ledger and a picture are written
to logs/scale/<task>/<time>.

Examples
  python scripts/scale.py task=lift                              the number that trains fastest (CPU) or fits (GPU)
  python scripts/scale.py task=lift scaling.budget=4GiB          inside 4 GiB
  python scripts/scale.py task=lift scaling.objective=memory     the most that fits
  python scripts/scale.py task=lift num_envs=512                 what 512 environments would take: one trial
  python scripts/scale.py task=lift device=cuda:0,cuda:1         a number that all of several GPUs bear
  python scripts/scale.py --plan task=lift num_envs=1024         what the configs tell, in seconds, nothing is simulated
  python scripts/scale.py --list                                 all remembered answers
  python scripts/scale.py --stability task=lift physics=newton_mjwarp   which time steps and iterations the task bears
  python scripts/scale.py --stability task=lift physics.position_iterations=8   the same with 8 iterations throughout

With --stability, the environments (64 unless num_envs is given) run under a small grid of time steps or substeps and
solver iterations, at the task's own control rate and with obs=state unless obs is given. Each setting gets a child
process, in which the task's scripted policy runs, where it has one (eval.episodes of it; one for each environment
unless given), and then random actions over the full range for half a minute. The table tells failures (environments
that the guard ended) per million environment steps, the scripted policy's success, environment steps per second, and
seconds per 1000 of them (on the CPU this is CPU time, which other work on the machine hardly changes);
"0 (< 40)" means that none was seen and that the rate is below 40 with 95 % confidence. A setting holds where nothing
failed and the scripted success is within 5 points of the best; the cheapest is printed as a command line. physics.*
settings that are given stay as they are. Ctrl-C keeps what was measured.

Settings are those of scripts/train.py; its --help has them all. Here scaling.cache is refresh unless it is given:
a search is what this script is for.
"""

OPTIONS = ("--plan", "--list", "--stability")
LEDGER_NAME = "ledger.json"


def main(argv: Sequence[str]) -> int:
    """Search, plan, list or measure stability.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code: 0; 2 for wrong settings or where nothing fits; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
    """
    return run_script(argv, HELP, _answer)


def _answer(argv: Sequence[str]) -> int:
    options = {argument for argument in argv if argument in OPTIONS}
    command = parse_command([argument for argument in argv if argument not in OPTIONS])
    if command.flags:
        raise ConfigError(f"{command.flags[0]} has no use here; --help shows what has.")
    if len(options) > 1:
        raise ConfigError(f"{' and '.join(sorted(options))} are different questions: give one of them.")
    if "--list" in options:
        return show_profiles()
    if "--stability" in options:
        if "visualizer" in command.given:
            raise ConfigError("visualizer has no use with --stability, where nothing is watched.")
        return measure_stability(command, compose_settled(command))
    try:
        return run(command, plan="--plan" in options)
    except ProbeError as error:
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.FAILED


def compose_settled(command: Command, *, several: bool = False) -> dict[str, Any]:
    """Compose the config of a command line, with the device and the physics backend that will run.

    Args:
        command: The checked command line.
        several: Whether it may name several GPUs.

    Returns:
        The plain config.

    Raises:
        ConfigError: A setting does not fit, or something is not installed.
    """
    check_isaaclab()
    config = compose(command.settings)
    config["env_overrides"], config["agent_overrides"] = command.env, command.agent
    check_runner(config["runner"]["name"])
    settle_platform(config, several=several)
    return config


def run(command: Command, *, plan: bool) -> int:
    """Search for the number of environments, or predict the memory of one.

    Args:
        command: The checked command line.
        plan: Whether to predict only.

    Returns:
        The exit code.

    Raises:
        ConfigError: A setting does not fit, or no size does.
        ProbeError: A trial failed for another reason than its size.
    """
    config = compose_settled(command, several=not plan)
    if "scaling.cache" not in command.given:
        config["scaling"]["cache"] = "refresh"
    settings = _settings(config)
    if plan:
        with tempfile.TemporaryDirectory() as scratch:
            return _plan(config, settings, Path(scratch), _trial_command(command, settings))
    folder = make_folder(LOGS / "scale" / experiment_name(config))
    save_config(folder / CONFIG_NAME, config)
    trials: list[Trial] = []
    try:
        find = find_num_envs_for_gpus if "," in config["device"] else find_num_envs
        result = find(config, probe_command(config), settings, versions(), trials.append)
    finally:
        # Also what was tried before an error or Ctrl-C; where nothing was, nothing stays.
        if trials:
            TrialsFile(RunKind.of(config), tuple(trials)).write(folder / TRIALS_NAME)
        else:
            shutil.rmtree(folder)
    _show(result, config, folder)
    return 0


def _settings(config: dict[str, Any]) -> ScalingSettings:
    """Return how to search; a given number of environments is the only size to try."""
    scaling = dict(config["scaling"])
    if config["num_envs"] != "auto":
        scaling.update(min=config["num_envs"], max=config["num_envs"], granule=config["num_envs"])
    return ScalingSettings(device=config["device"], **scaling)


def _show(result: FitResult, config: dict[str, Any], folder: Path) -> None:
    """Print the ledger of the winner and save the picture."""
    if not result.trials:
        return
    ledger = measured_ledger(result.trials, result.num_envs)
    if ledger is not None:
        _write(folder / LEDGER_NAME, asdict(ledger))
        _print_ledger(ledger, "measured")
    from isaaclab_pc.viz.scaling_plot import save_scaling_plot

    title = f"{config['task']}, {config['runner']['name']}, {config['physics']['backend']}, {config['device']}"
    picture = folder / "memory.png"
    save_scaling_plot(result.trials, result.num_envs, title, picture)
    print(f"picture: {picture}")


def _trial_command(command: Command, settings: ScalingSettings) -> str:
    """Return the command that tries the size that is planned for."""
    given = [text for text in command.settings if not text.startswith("num_envs=")]
    arguments = [*given, *command.env, *command.agent, f"num_envs={settings.sizes.start}"]
    return shlex.join(["python", "scripts/scale.py", *arguments])


def _plan(config: dict[str, Any], settings: ScalingSettings, folder: Path, trial: str) -> int:
    """Let a child read the configs, and print what they tell; ``trial`` is the command that tells the rest."""
    num_envs = settings.sizes.start
    path = folder / "plan.json"
    save_config(folder / CONFIG_NAME, config)
    code = run_child(worker_command("plan", folder / CONFIG_NAME, num_envs=num_envs, result=path))
    if code == 0:
        plan = PlanReport.read(path)
        _print_ledger(predicted_ledger(num_envs, plan.parts), "predicted")
        for finding in plan.findings:
            print(finding)
        batch = plan.batch
        print(
            f"batch: {batch.horizon} steps of {num_envs} environments, {batch.num_minibatches} minibatches of "
            f"{batch.minibatch_size} samples"
        )
        if plan.missing:
            print(f"Only a trial tells {', '.join(plan.missing)}: run {trial}")
    elif code not in (2, 130, 143):
        show_log(folder / "worker.log", code)
        code = 1
    return code


def _print_ledger(ledger: Ledger, how: str) -> None:
    table = Table(title=f"Memory at num_envs={ledger.num_envs}, {how}", title_justify="left")
    table.add_column("")
    for column in ("total", "fixed", "per environment"):
        table.add_column(column, justify="right")
    notes = any(entry.note for entry in ledger.entries)
    if notes:
        table.add_column("of what")
    for entry in ledger.entries:
        cells = [entry.kind, format_size(entry.total), _size(entry.fixed), _size(entry.per_env)]
        table.add_row(*cells, *([entry.note] if notes else []))
    table.add_section()
    fixed, per_env = ([getattr(entry, name) for entry in ledger.entries] for name in ("fixed", "per_env"))
    sums = [_size(None if None in column else sum(column)) for column in (fixed, per_env)]
    table.add_row("sum", format_size(ledger.total), *sums)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _size(size: float | None) -> str:
    return "" if size is None else format_size(size)


def show_profiles() -> int:
    """Print all answers that earlier searches left, the newest first.

    Returns:
        The exit code, 0.
    """
    cache = ProfileCache()
    profiles = cache.all()[::-1]
    if not profiles:
        print(f"no search has left an answer yet ({cache.path})")
        return 0
    table = Table(title=f"Answers of earlier searches ({cache.path})", title_justify="left")
    for column in ("what", "num_envs", "frames/s", "host memory", "GPU memory", "search", "measured"):
        table.add_column(column, justify="right" if column in ("num_envs", "frames/s") else "left")
    for profile in profiles:
        table.add_row(
            profile.label or "(written by an older version)",
            str(profile.num_envs),
            f"{profile.frames_per_second:.0f}",
            format_size(profile.host_bytes),
            "" if profile.device_bytes is None else format_size(profile.device_bytes),
            profile.stop,
            profile.date,
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")

# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/play.py``: evaluate a checkpoint under its run's settings. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isaaclab_pc.commands.train import LOGS, check_checkpoint, experiment_name, show_log
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.child_process import run_child, run_script, worker_command
from isaaclab_pc.launch.compose import Command, compose, load_config, parse_command, save_config
from isaaclab_pc.launch.platform import check_isaaclab, check_runner, settle_platform
from isaaclab_pc.launch.run_record import CONFIG_NAME, find_checkpoint, make_folder

__all__ = ["main"]

HELP = """\
Evaluate a checkpoint: success rate, mean return and mean time to success of the deterministic policy.

  python scripts/play.py [key=value ...]

Everything is as in the run that the checkpoint comes from, unless it is given here. The result is written to the run's
folder, in play/<time>/result.json.

Examples
  python scripts/play.py                                     the latest run of reach
  python scripts/play.py task=lift runner=rl_games           the latest run of another task and library
  python scripts/play.py resume=best eval.episodes=1000      its best checkpoint, over more episodes
  python scripts/play.py resume=logs/rsl_rl/reach/<time>/checkpoints/model_100.pt    a certain checkpoint
  python scripts/play.py visualizer=viser                    watch it in a browser
  python scripts/play.py physics=newton_mjwarp               does the policy survive another physics backend?
  python scripts/play.py env.success_distance=0.02           a stricter task

Which policy
  task, runner, obs      reach, rsl_rl, points   which runs to look through
  resume                 latest                  latest, best, or a run's folder or checkpoint

How to evaluate it
  eval.episodes          200       episodes at least; every environment contributes equally
  eval.seed              1000      seed of the resets
  num_envs               as trained, but not more than episodes; 4 with a visualizer
  visualizer             null      viser or rerun (in a browser), newton_gl, newton_rtx or kit (a window): watch it
  device, robot, physics*, guard*, env.*     as in scripts/train.py --help; as trained
"""

SELECTS = frozenset({"task", "runner", "runner.name", "obs", "resume"})
MAY_CHANGE = ("device", "num_envs", "visualizer", "robot", "physics", "guard", "eval")


def main(argv: Sequence[str]) -> int:
    """Evaluate one checkpoint.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code: 0; 2 for wrong settings; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
    """
    return run_script(argv, HELP, lambda argv: run(_without_flags(parse_command(argv))))


def _without_flags(command: Command) -> Command:
    if command.flags:
        raise ConfigError(f"{command.flags[0]} has no use here; --help shows what has.")
    return command


def run(command: Command) -> int:
    """Evaluate the checkpoint that a command names.

    Args:
        command: The checked command line.

    Returns:
        The exit code.

    Raises:
        ConfigError: There is no such checkpoint, or a setting does not fit it.
    """
    check_isaaclab()
    asked = compose(command.settings)
    record, checkpoint = find_checkpoint(
        asked["resume"] or "latest", LOGS, asked["runner"]["name"], experiment_name(asked)
    )
    config = load_config(record.folder / CONFIG_NAME, from_older=True)
    for key in command.given & {"task", "runner", "obs"}:
        if asked[key] != config[key]:
            raise ConfigError(f"{key}: {checkpoint} comes from a run with {key}={config[key]}, not {asked[key]}.")
    _apply(config, asked, command)
    check_runner(config["runner"]["name"])
    check_checkpoint(checkpoint, config)
    settle_platform(config)

    folder = make_folder(record.folder / "play")
    save_config(folder / CONFIG_NAME, config)
    print(f"checkpoint: {checkpoint}", flush=True)
    code = run_child(worker_command("play", folder / CONFIG_NAME, checkpoint=checkpoint), log=folder / "worker.log")
    if code == 0:
        print(f"result: {folder / 'result.json'}", flush=True)
    elif code not in (2, 130, 143):
        show_log(folder / "worker.log", code)
        code = 1
    return code


def _apply(config: dict[str, Any], asked: Mapping[str, Any], command: Command) -> None:
    """Write what was given on the command line over the run's settings."""
    for key in sorted(command.given - SELECTS):
        group, _, name = key.partition(".")
        if group not in MAY_CHANGE:
            raise ConfigError(f"{key} has no effect on a trained policy; --help shows what may be given.")
        if name:
            config[group][name] = asked[group][name]
        else:
            config[group] = asked[group]
    if command.agent:
        raise ConfigError(f"{command.agent[0]} has no effect on a trained policy.")
    config["env_overrides"] = [*config["env_overrides"], *command.env]
    config["visualizer"] = asked["visualizer"]
    if "num_envs" not in command.given:
        trained = min(config["num_envs"], config["eval"]["episodes"])
        config["num_envs"] = "auto" if config["visualizer"] else trained
    elif config["num_envs"] == "auto" and not config["visualizer"]:
        raise ConfigError("num_envs=auto finds what trains fastest; give a number here, or leave it as trained.")

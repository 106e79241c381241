# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/view.py``: look at a few environments as the policy sees them, in a browser or as a film.

Loads no torch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from isaaclab_pc.cli.command_line import Command, Takes, keys_of, parse_script_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.commands.prepare import prepare
from isaaclab_pc.commands.trained_policy import SELECTS, find_policy
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.folder import LOGS, experiment_name, make_folder
from isaaclab_pc.run.jobs import ViewJob, launch_worker
from isaaclab_pc.run.kernel_cache import begin_build
from isaaclab_pc.run.visualizers import INSTALL_VIZ, NUM_ENVS_SHOWN, check_num_envs_shown
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.packages import is_installed

KEYBOARD = "keyboard"
ACTORS = ("random", "zero", "expert", KEYBOARD)
"""Policies that were not trained."""


class ViewSettings(ScriptSettings):
    """Settings of a view besides those of a run."""

    policy: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """Who acts: random, zero, expert, keyboard (you, by the page's sliders and keys), pretrained (the policy that comes
    with the task), latest, best, or the path of a run's folder or checkpoint. null: the expert where the task has one,
    else random."""

    record: str | None = None
    """Write a film in the place of the page, to a path that ends in .mp4: the scene beside the cloud and the depth
    images that the policy sees."""

    steps: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Steps after which it ends; null: never, and with record the longest episode."""

    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the page; null: 8080. The next free one where it is taken."""


MAY_CHANGE = (
    *("device", "num_envs", "host", "force", "robot", "seed", "reward"),
    *("physics.", "guard.", "points.", "env."),
)
"""Settings of a run, and groups of them, that a view takes."""

TAKES = Takes(ViewSettings, (*SELECTS, *MAY_CHANGE))

CHANGES_OF_A_POLICY = (
    *("device", "num_envs", "host", "force", "robot", "seed", "physics.", "guard."),
    *("points.num_points", "points.sampler", "points.realism"),
)
"""Those that may differ from a trained policy's."""

_OTHERWISE = {"num_envs": (str(NUM_ENVS_SHOWN), "Environments to show; more than 64 need force=true.")}
"""Settings with another default and meaning than in training."""

HELP = f"""\
Look at a few environments in a browser: the scene, each environment's cloud as the policy sees it, cameras, crop boxes,
grippers and goals, with rewards, actions, success and what the guard finds. A panel there pauses, takes single steps,
goes in slow motion or to the next fault, and resets.

  python scripts/view.py task=<name> [key=value ...]

Examples
  python scripts/view.py task=lift                                    four environments; the task's expert acts
  python scripts/view.py task=lift num_envs=9 policy=pretrained       the policy that comes with the task
  python scripts/view.py task=stack policy=logs/rsl_rl/stack/<time>   one that you trained
  python scripts/view.py task=lift policy=random points.realism=stereo
  python scripts/view.py task=lift policy=keyboard num_envs=1 env.episode_length_s=120     drive the arm yourself
  python scripts/view.py task=lift record=lift.mp4 num_envs=1         a film
  python scripts/view.py task=lift host=0.0.0.0                       also for a browser on another machine

{settings_table(keys_of(*TAKES.run), ViewSettings, _OTHERWISE)}

num_envs=auto is {NUM_ENVS_SHOWN}. env.* is as in scripts/train.py. A trained policy acts under its run's settings; of
these, device, num_envs, seed, robot, physics.*, guard.*, points.num_points, points.sampler, points.realism and env.*
may be changed.

Exit codes: 0; 2 for wrong settings; 128 + N after a signal N; 1 otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Show environments until stopped; return the exit code, as in :data:`HELP`."""
    own, command = parse_script_command(argv, TAKES)
    _check_outputs(own)
    settings, checkpoint = _settings(own, command)
    if settings.num_envs == "auto":
        settings = settings.with_values({"num_envs": NUM_ENVS_SHOWN})
    check_num_envs_shown(int(settings.num_envs), settings.force)
    settings = prepare(settings)

    folder = make_folder(LOGS / "view" / experiment_name(settings))
    job = ViewJob(
        settings,
        policy=own.policy if checkpoint is None else None,
        checkpoint=checkpoint,
        record=None if own.record is None else Path(own.record).resolve(),
        steps=own.steps,
        port=own.port,
    )
    begin_build(settings)
    code = launch_worker(job, folder)
    if code == ExitCode.OK and own.record is not None:
        current().made("recording", Path(own.record))
    return code


def _check_outputs(own: ViewSettings) -> None:
    if own.record is None:
        if not is_installed("viser"):
            raise ConfigError(
                f"The page needs viser, which is not installed: {INSTALL_VIZ}. record=<path>.mp4 needs av alone."
            )
        return

    if own.policy == KEYBOARD:
        raise ConfigError(
            f"policy={KEYBOARD}: a recording has no sliders and takes no keys. Leave record out, or let somebody else "
            "act."
        )
    path = Path(own.record)
    if path.suffix != ".mp4":
        raise ConfigError(f"record={own.record}: expected a path that ends in .mp4, a film.")
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"record={own.record}: there is no folder {path.resolve().parent}; make it first.")
    if not is_installed("av"):
        raise ConfigError(f"record={own.record} needs av, which is not installed: {INSTALL_VIZ}.")


def _settings(own: ViewSettings, command: Command) -> tuple[RunSettings, Path | None]:
    """Return the settings to run with, and the checkpoint of a trained policy."""
    asked = compose(command.settings, command.env)
    if own.policy is None or own.policy in ACTORS:
        return asked, None

    settings, checkpoint, _ = find_policy(own.policy, asked, command, CHANGES_OF_A_POLICY, key="policy")
    if "num_envs" not in command.given:
        settings = settings.with_values({"num_envs": "auto"})
    return settings, checkpoint

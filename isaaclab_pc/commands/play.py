# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/play.py``: evaluate a checkpoint under its run's settings, or a task's expert. Loads no torch."""

from collections.abc import Sequence

from isaaclab_pc.cli.command_line import Command, Takes, keys_of, parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.cli.task_names import require_expert, short_name
from isaaclab_pc.commands.prepare import prepare
from isaaclab_pc.commands.trained_policy import SELECTS, find_policy
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.algorithm import EXPERT
from isaaclab_pc.run.folder import LOGS, make_folder
from isaaclab_pc.run.jobs import PlayJob, launch_worker
from isaaclab_pc.run.kernel_cache import begin_build
from isaaclab_pc.run.pretrained import PRETRAINED
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

MAY_CHANGE = (
    *("device", "num_envs", "visualizer", "host", "force", "robot", "physics.", "guard.", "eval.episodes", "eval.seed"),
    *("points.num_points", "points.sampler", "points.realism"),
)
"""Settings, and groups of them, that may differ from the run's."""

EXPERT_NUM_ENVS = 256
"""Environments in which an expert acts, where nothing else is given."""

TAKES = Takes(run=(*SELECTS, "resume", *MAY_CHANGE, "env."))

_OTHERWISE = {
    "num_envs": ("as trained", "Environments at once: not more than eval.episodes, and 4 with a visualizer."),
    "resume": ("latest", "The policy: latest, best, pretrained, expert, or the path of a run's folder or checkpoint."),
}
"""Settings that mean something else than in training."""

HELP = f"""\
Evaluate a checkpoint: success at the end of the episodes and at any step of them, each with its 95 % interval (Wilson
score), mean return and mean time to success of the deterministic policy, and success in each third of what was
randomized, such as the objects' positions: where does the policy fail?

  python scripts/play.py [key=value ...]

Everything is as in the run that the checkpoint comes from, unless it is given here: the defaults below are those of
training. The result is written to the run's folder, in play/<time>/result.json; that of a pretrained policy to
logs/pretrained/<task>/<time>. With resume=expert the task's expert acts, which reads the simulator's state: what its
students can reach; the result goes to logs/expert/<task>/<time>.

Examples
  python scripts/play.py task=lift resume=pretrained visualizer=viser    watch a policy that comes with the package
  python scripts/play.py                                     the latest run of reach
  python scripts/play.py task=lift runner=rl_games           the latest run of another task and library
  python scripts/play.py resume=best eval.episodes=1000      its best checkpoint, over more episodes
  python scripts/play.py resume=logs/rsl_rl/reach/<time>/checkpoints/model_100.pt    a certain checkpoint
  python scripts/play.py task=lift resume=expert env.randomization=hard      what is the expert's own success?
  python scripts/play.py physics=newton_mjwarp               does the policy survive another physics backend?
  python scripts/play.py env.success_distance=0.02           a stricter task
  python scripts/play.py points.realism=stereo env.randomization=hard    a worse camera, and more variety

{settings_table(keys_of(*TAKES.run), instead=_OTHERWISE)}

Exit codes: 0; 2 for wrong settings; 128 + N after a signal N; 1 otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Evaluate one checkpoint; return the exit code, as in :data:`HELP`."""
    command = parse_command(argv, TAKES)
    asked = compose(command.settings, command.env)
    if asked.resume == EXPERT:
        settings, checkpoint = _expert(asked, command), None
        parent = LOGS / EXPERT / short_name(settings.task)
    else:
        settings, checkpoint, run_folder = find_policy(asked.resume or "latest", asked, command, MAY_CHANGE)
        parent = run_folder if asked.resume == PRETRAINED else run_folder / "play"
    settings = prepare(_with_num_envs(settings, command))

    folder = make_folder(parent)
    if checkpoint is None:
        current().decide("policy: the task's expert, which reads the simulator's state", policy=EXPERT)
    else:
        current().decide(f"checkpoint: {checkpoint}", checkpoint=str(checkpoint))
    begin_build(settings)
    code = launch_worker(PlayJob(settings, checkpoint), folder)
    if code == ExitCode.OK:
        current().made("result", folder / "result.json")
    return code


def _expert(asked: RunSettings, command: Command) -> RunSettings:
    """Return the settings under which a task's expert acts."""
    require_expert(asked.task, f"resume={EXPERT}")
    allowed = keys_of("task", "obs", "resume", *MAY_CHANGE)
    for key in (*sorted(command.given), *command.agent):
        if not allowed(key):
            raise ConfigError(f"{key} has no effect on the expert; --help shows what may be given.")

    # Without cameras, unless they are asked for: the expert does not look.
    defaults = {"obs": "state", "num_envs": EXPERT_NUM_ENVS}
    return asked.with_values({key: value for key, value in defaults.items() if key not in command.given})


def _with_num_envs(settings: RunSettings, command: Command) -> RunSettings:
    """Return the settings with the number of environments that was given, or a fitting one."""
    if settings.visualizer:
        return settings if "num_envs" in command.given else settings.with_values({"num_envs": "auto"})
    if settings.num_envs == "auto":
        if "num_envs" in command.given:
            raise ConfigError("num_envs=auto finds what trains fastest; give a number here, or leave it as trained.")
        raise ConfigError("The run ended before its number of environments was found: give num_envs.")
    if "num_envs" in command.given:
        return settings
    return settings.with_values({"num_envs": min(settings.num_envs, settings.eval.episodes)})

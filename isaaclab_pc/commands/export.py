# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/export.py``: write a policy for programs without a simulator. Loads no torch."""

from collections.abc import Sequence

from isaaclab_pc.cli.command_line import Takes, keys_of, parse_command, split_own
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.commands.prepare import prepare
from isaaclab_pc.commands.trained_policy import SELECTS, find_policy
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.folder import writing
from isaaclab_pc.run.jobs import ExportJob, launch_worker
from isaaclab_pc.run.kernel_cache import begin_build
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.packages import is_installed

MAY_CHANGE = ("physics.", "eval.seed", "points.num_points", "points.sampler")
"""Settings, and groups of them, that may differ from the run's."""


class ExportSettings(ScriptSettings):
    """Settings of an export besides those of a run."""

    run: str = "latest"
    """latest, best, pretrained, or the path of a run's folder or checkpoint."""


TAKES = Takes(ExportSettings, (*SELECTS, *MAY_CHANGE))

HELP = f"""\
Write a trained policy for programs without a simulator: policy.pt (TorchScript), policy.onnx, policy.json, which says
what its inputs and its actions are, and sample.npz, some frames with the actions that belong to them. They go to the
run's folder, into export/; those of a pretrained policy to logs/pretrained/<task>/export.

  python scripts/export.py [run=<run>] [key=value ...]

The policy acts for 64 steps in one environment, on the CPU, and what was exported must act as it
does, to 1e-5; the agreement and the time of an action on one thread are printed.

Examples
  python scripts/export.py run=pretrained task=lift          a policy that comes with the package
  python scripts/export.py task=lift                         the latest run of lift
  python scripts/export.py run=logs/rsl_rl/lift/<time>       a certain run
  python examples/deploy_onnx.py logs/rsl_rl/lift/<time>/export    runs it on depth images, without Isaac Lab

{settings_table(keys_of(*TAKES.run), ExportSettings)}

Exit codes: 0; 2 for wrong settings; 128 + N after a signal N; 1 otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Export one policy; return the exit code, as in :data:`HELP`."""
    own, others = split_own(argv, ExportSettings)
    command = parse_command(others, TAKES)
    if "resume" in command.given:
        raise ConfigError("resume is for training, which goes on: name the policy with run=<run>.")
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if not is_installed(name)]
    if missing:
        raise ConfigError(f'{", ".join(missing)} is not installed: pip install "isaaclab_pc[export]".')
    asked = compose(command.settings)
    trained, checkpoint, run_folder = find_policy(own.run, asked, command, MAY_CHANGE, key="run")
    settings = prepare(trained.with_values({"num_envs": 1, "device": "cpu", "visualizer": None}))

    folder = run_folder / "export"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    current().decide(f"checkpoint: {checkpoint}", checkpoint=str(checkpoint))
    begin_build(settings)
    code = launch_worker(ExportJob(settings, checkpoint), folder)
    if code == ExitCode.OK:
        current().made("policy", folder)
    return code

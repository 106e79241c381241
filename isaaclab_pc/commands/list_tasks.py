# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/list_tasks.py``: the names that ``task=`` takes. Loads no torch."""

from collections.abc import Sequence

import gymnasium

from isaaclab_pc.cli.command_line import Takes
from isaaclab_pc.cli.script import script
from isaaclab_pc.cli.task_names import our_tasks, registered_tasks
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.learners import RUNNERS, agent_key
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.terminal.screen import current

HELP = """\
List the tasks that scripts/train.py task=<name> takes.

  python scripts/list_tasks.py          this package's tasks: short name, gym id, learning libraries
  python scripts/list_tasks.py --all    also the gym ids of all other packages (takes a few seconds)

Exit codes: 0; 2 for an unknown option; 128 + N after a signal N; 1 otherwise.
"""

TAKES = Takes(options=("--all",))

_OPTIONS = (*TAKES.options, "--help", "-h")


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Print the tasks; return the exit code, as in :data:`HELP`."""
    unknown = [argument for argument in argv if argument not in _OPTIONS]
    if unknown:
        raise ConfigError(f"{unknown[0]} is not an option: {closest(unknown[0], _OPTIONS)}")

    screen = current()
    tasks = our_tasks()
    width = max(map(len, tasks), default=0)
    for short, task_id in tasks.items():
        agents = gymnasium.spec(task_id).kwargs
        runners = sorted(name for name in RUNNERS if agent_key(name, "default") in agents)
        screen.say(f"{short:{width}}  {task_id}  ({', '.join(runners)})")

    if "--all" in argv:
        others = [task_id for task_id in sorted(registered_tasks()) if task_id not in tasks.values()]
        screen.say("\n  ".join(["\nof other packages:", *others]))
    return ExitCode.OK

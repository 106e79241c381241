# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/robot.py``: import an arm with a parallel gripper from URDF, MJCF or USD. Loads no torch."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import StringConstraints

from isaaclab_pc.assets.robots import IMPORTED, ROBOT_FILE, ROBOTS
from isaaclab_pc.cli.command_line import Takes, parse_script_command
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.folder import writing
from isaaclab_pc.settings.base import Expects, ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console


class RobotSettings(ScriptSettings):
    """Settings of an import."""

    file: str | None = None
    """The arm: a URDF, MJCF (.xml) or USD file, with or without its gripper."""

    name: Annotated[str, StringConstraints(pattern=r"^\w[\w-]*$"), Expects("letters, digits, _ and -")] | None = None
    """Name for the setting robot, and of its folder in robots; null: that of the file."""

    gripper: str | None = None
    """File of the gripper; null: it is in that of the arm."""

    flange: str | None = None
    """Link of the arm that carries the gripper of another file."""

    hand: str | None = None
    """Link that carries the fingers; null: the first one that carries several."""

    effort: Annotated[str, StringConstraints(pattern=r"^[\d.]+(,[\d.]+)*$"), Expects("numbers: 87,87,12")] | None = None
    """Largest efforts of the arm's joints, from the base on, the last one for the rest [N*m]; null: those in the
    file."""


TAKES = Takes(RobotSettings)

PICTURE = "robot.png"
"""Picture of the arm in its folder."""

HELP = f"""\
Import an arm with a parallel gripper for reach, push and lift. Its parts, its tool centre and a posture to start from
are found; what cannot be found is asked for. Collision meshes become convex hulls. Fingers that turn, alone or
in a linkage, become fingers that slide as far as their tips move.

  python scripts/robot.py <file> [key=value ...]

Examples
  python scripts/robot.py panda.urdf name=my_panda
  python scripts/robot.py xarm7.xml gripper=xarm_gripper.xml flange=link7 effort=50,50,30,30,30,20,20

{settings_table(lambda _: False, RobotSettings)}

It writes robots/<name>: the USD, {ROBOT_FILE} with drives, tool centre and posture, which may be edited, and
{PICTURE} with the arm in that posture.

Exit codes: 0; 2 for a file that cannot be used, or a wrong setting; 5 for a full disk; 128 + N after a signal N; 1
otherwise.
"""


def with_key(argv: Sequence[str]) -> list[str]:
    """Return a command line with ``file=`` before the first word, if that has no key."""
    return [f"file={word}" if index == 0 and "=" not in word else word for index, word in enumerate(argv)]


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Import a robot; return the exit code, as in :data:`HELP`."""
    settings, _ = parse_script_command(with_key(argv), TAKES)
    if settings.file is None:
        raise ConfigError("file= is missing: give a URDF, MJCF or USD file, such as scripts/robot.py panda.urdf.")
    file = Path(settings.file).expanduser()
    folder = IMPORTED / (settings.name or file.stem)
    if folder.name in ROBOTS or folder.exists():
        raise ConfigError(f"name={folder.name}: there is such a robot; give another name, or remove {folder}.")

    # Late: Newton takes seconds to load.
    from isaaclab_pc.assets.robot_import.description import read_description
    from isaaclab_pc.assets.robot_import.parts import at_home, find_parts
    from isaaclab_pc.assets.robot_import.usd_file import write_robot_usd
    from isaaclab_pc.report.robot_picture import save_robot_picture

    current().begin("build", f"importing {file}")
    robot = read_description(file, Path(settings.gripper).expanduser() if settings.gripper else None, settings.flange)
    parts = find_parts(robot, settings.hand)
    efforts = [float(effort) for effort in settings.effort.split(",")] if settings.effort else []
    for index, joint in enumerate(parts.arm):
        joint.effort = efforts[min(index, len(efforts) - 1)] if efforts else joint.effort
        if not joint.effort:
            raise ConfigError(f"{file} has no effort limit of joint {joint.name}: give those of the arm, effort=<N*m>.")
    arm, fingers = (
        {one.name: {"effort": one.effort, "velocity": one.velocity, "home": parts.home[one.name]} for one in joints}
        for joints in (parts.arm, parts.fingers)
    )
    values = {"usd": "robot.usd", "hand": robot.names[parts.hand], "tcp_offset": parts.tcp_offset}
    values |= {"arm_joints": arm, "finger_joints": fingers}
    with writing(folder):
        IMPORTED.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=IMPORTED))
        try:
            num_colliders = write_robot_usd(robot, parts, draft / "robot.usd")
            text = yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=120)
            (draft / ROBOT_FILE).write_text(text, encoding="utf-8")
            save_robot_picture(*at_home(robot, parts), draft / PICTURE, folder.name)
            # Temporary folders are their owner's alone.
            draft.chmod(0o755)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    current().end_phase()

    opening = f"{1000 * sum(finger.upper for finger in parts.fingers):.0f} mm"
    linkage = "; slides in the place of a linkage" if parts.unmoved else ""
    rows = [
        ("arm", ", ".join(f"{joint.name} {joint.effort:g} N*m" for joint in parts.arm)),
        ("hand", f"{robot.names[parts.hand]}, tool centre {1000 * parts.tcp_offset:.0f} mm along its z axis"),
        ("fingers", f"{', '.join(fingers)}, open {opening}{linkage}"),
        ("colliders", f"{num_colliders} shapes; none of the base"),
    ]
    table_console(100).print(make_table("", ("part", "found"), rows))
    current().made("robot", folder)
    current().made("picture", folder / PICTURE)
    current().say(f"next: python scripts/play.py task=reach resume=expert robot={folder.name}")
    return ExitCode.OK

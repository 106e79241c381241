# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/objects.py``: make a set of objects, or import one from mesh files. Loads no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from isaaclab_pc.assets.objects import DENSITY
from isaaclab_pc.cli.command_line import Takes, parse_script_command
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.folder import writing
from isaaclab_pc.settings.base import ScriptSettings, Unit
from isaaclab_pc.terminal.screen import current


class ObjectSettings(ScriptSettings):
    """Settings of sets of objects."""

    set: str = "train"
    """A set that comes with the package, train or held_out, or the folder of one that was imported."""

    meshes: str | None = None
    """A mesh file, or a folder of them, to import (STL, OBJ, PLY, GLB); null: nothing is imported."""

    out: str | None = None
    """The folder of the imported set, which may hold others already; null: objects/<name of meshes>."""

    scale: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Factor of all lengths of the meshes: 0.001 where they are in millimetres."""

    density: Annotated[float, Field(ge=1, le=30_000), Unit("kg/m^3")] = DENSITY
    """Mass of the imported objects per volume."""


TAKES = Takes(ObjectSettings)

HELP = f"""\
Make a set of objects to grasp, or import one from mesh files, and draw its sheet. Each object is made of convex parts
and knows its mass, the poses in which it rests on a table, and how a parallel gripper grasps it there from above.

  python scripts/objects.py [key=value ...]

Examples
  python scripts/objects.py                                 256 objects of 15 families; made once, in a minute
  python scripts/objects.py set=held_out                    48 others, half of them of families never trained on
  python scripts/objects.py meshes=cup.stl scale=0.001      import a mesh in millimetres
  python scripts/objects.py meshes=my_meshes out=my_set     import a folder of meshes

{settings_table(lambda _: False, ObjectSettings)}

Exit codes: 0; 2 for a mesh that cannot be used, or a wrong setting; 5 for a full disk; 128 + N after a signal N; 1
otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Make or import a set; return the exit code, as in :data:`HELP`."""
    settings, _ = parse_script_command(argv, TAKES)
    # Late: trimesh and matplotlib take seconds to load.
    from isaaclab_pc.assets.objects.sets import SETS, load_set, set_folder
    from isaaclab_pc.report.object_sheet import save_object_sheet

    name = settings.set if settings.meshes is None else str(_import(settings, Path(settings.meshes).expanduser()))
    screen = current()
    screen.begin("build", f"objects of {name}")
    objects = load_set(name, screen.advance)
    folder = set_folder(name)
    sheet = folder / "sheet.png"
    with writing(folder):
        save_object_sheet(objects, name if name in SETS else folder.name, sheet)
    screen.end_phase()

    grasps = sum(len(graspable.grasp_width) for graspable in objects)
    families = len({graspable.family for graspable in objects})
    screen.say(f"{len(objects)} objects of {families} families, {grasps} grasps")
    screen.made("objects", folder)
    screen.made("sheet", sheet)
    return ExitCode.OK


def _import(settings: ObjectSettings, meshes: Path) -> Path:
    """Import the meshes that can be used, with a warning for each other one; returns the set's folder."""
    from isaaclab_pc.assets.objects.mesh_import import import_mesh, mesh_files

    files = mesh_files(meshes)
    screen = current()
    screen.begin("build", f"importing {len(files)} {'mesh' if len(files) == 1 else 'meshes'}")
    imported = {}
    for number, file in enumerate(files, start=1):
        try:
            imported[file.stem] = import_mesh(file, scale=settings.scale, density=settings.density)
        except ConfigError as error:
            if len(files) == 1:
                raise
            screen.warn(str(error))
            continue
        graspable = imported[file.stem]
        screen.say(
            f"{file.name}: convex parts: {len(graspable.part_ends)}, {1000 * graspable.mass:.0f} g, "
            f"{len(graspable.rest_height)} resting poses, {len(graspable.grasp_width)} grasps"
        )
        screen.advance(number, len(files))
    screen.end_phase()
    if not imported:
        raise ConfigError(f"no mesh of {meshes} can be used.")

    folder = Path(settings.out or Path("objects", meshes.stem)).expanduser()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for stem, graspable in imported.items():
            graspable.save(folder / f"{stem}.npz")
    return folder

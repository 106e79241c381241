# SPDX-License-Identifier: BSD-3-Clause
"""Sets of objects in the cache, from folders, and from mesh files of anybody."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from isaaclab_pc.assets.objects import sets
from isaaclab_pc.assets.objects.families import letter_t
from isaaclab_pc.assets.objects.graspable import make_graspable
from isaaclab_pc.assets.objects.mesh_import import import_mesh, mesh_files
from isaaclab_pc.assets.objects.sets import load_set, make_object, set_folder, usd_files
from isaaclab_pc.commands.objects import main
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setitem(sets.SETS, "few", [("box", 1), ("T", 2), ("mug", 3)])
        patch.setitem(sets.SETS, "one", [("box", 1)])
        yield folder


def tee() -> trimesh.Trimesh:
    parts = [trimesh.convex.convex_hull(points) for points in letter_t(np.random.default_rng(1))]
    return trimesh.boolean.union(parts, engine="manifold")


def test_a_set_is_made_once_and_tells_how_far_it_is(cache: Path) -> None:
    told = []
    objects = load_set("few", lambda *progress: told.append(progress))
    assert [graspable.family for graspable in objects] == ["box", "T", "mug"]
    assert told == [(1, 3), (2, 3), (3, 3)]
    again = load_set("few", lambda *progress: told.append(progress))
    assert len(told) == 3
    np.testing.assert_array_equal(objects[2].vertices, again[2].vertices)


def test_a_set_that_fails_leaves_nothing(cache: Path) -> None:
    def fail(*progress: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_set("one", fail)
    assert not [path for path in set_folder("one").parent.iterdir() if "one" in path.name]


def test_padded_files_have_as_many_parts_each(cache: Path) -> None:
    from pxr import Usd, UsdGeom

    parts = [len(graspable.part_ends) for graspable in load_set("few")]
    for padded, expected in ((False, parts), (True, [max(parts)] * 3)):
        files = usd_files("few", padded=padded)
        stages: list[Any] = [Usd.Stage.Open(str(file)) for file in files]
        assert [sum(prim.IsA(UsdGeom.Mesh) for prim in stage.Traverse()) for stage in stages] == expected
        masses = [stage.GetDefaultPrim().GetAttribute("physics:mass").Get() for stage in stages]
        assert masses == pytest.approx([graspable.mass for graspable in load_set("few")])
        assert usd_files("few", padded=padded) == files


@pytest.mark.parametrize("what", ["missing", "empty", "foreign"])
def test_a_folder_that_is_no_set_is_refused(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "mine"
    if what != "missing":
        folder.mkdir()
    if what == "foreign":
        (folder / "a.npz").write_bytes(b"PK nothing")
    with pytest.raises(ConfigError, match=str(folder)):
        load_set(str(folder))


def scaled(mesh: trimesh.Trimesh, factor: float) -> trimesh.Trimesh:
    return mesh.copy().apply_scale(factor)


def without_faces(mesh: trimesh.Trimesh) -> trimesh.Trimesh:
    mesh = mesh.copy()
    mesh.update_faces(np.arange(len(mesh.faces)) > 3)
    return mesh


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".ply", ".glb"])
def test_a_mesh_is_decomposed_and_has_the_mass_of_its_volume(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"tee{suffix}"
    tee().export(file)
    imported = import_mesh(file, density=1000.0)
    assert imported.family == "tee"
    assert len(imported.part_ends) == 2
    assert imported.mass == pytest.approx(1000.0 * tee().volume, rel=0.02)


def with_wall_inside(mesh: trimesh.Trimesh) -> trimesh.Trimesh:
    """A box of two halves, each with the wall between them."""
    halves = [trimesh.creation.box((0.03, 0.04, 0.05)).apply_translation((x, 0.0, 0.0)) for x in (-0.015, 0.015)]
    return trimesh.util.concatenate(halves)  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("damage", [without_faces, with_wall_inside])
def test_holes_are_filled_and_surfaces_inside_do_no_harm(
    tmp_path: Path, damage: Callable[[trimesh.Trimesh], trimesh.Trimesh]
) -> None:
    damaged = damage(tee())
    damaged.export(tmp_path / "damaged.obj")
    volume = tee().volume if damage is without_faces else 0.06 * 0.04 * 0.05
    assert import_mesh(tmp_path / "damaged.obj").mass == pytest.approx(400.0 * volume, rel=0.05)


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (lambda: scaled(tee(), 1000.0), r"scale=0\.001"),
        (lambda: trimesh.creation.box((0.2, 0.2, 0.2)), "no grasp from above"),
        (lambda: trimesh.Trimesh([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0]], [[0, 1, 2]]), "flat"),
    ],
)
def test_a_mesh_that_cannot_be_used_is_refused(
    tmp_path: Path, mesh: Callable[[], trimesh.Trimesh], message: str
) -> None:
    mesh().export(tmp_path / "bad.stl")
    with pytest.raises(ConfigError, match=message):
        import_mesh(tmp_path / "bad.stl")


def test_a_mesh_of_many_triangles_is_made_coarser(tmp_path: Path) -> None:
    trimesh.creation.icosphere(subdivisions=6, radius=0.03).export(tmp_path / "ball.stl")
    ball = import_mesh(tmp_path / "ball.stl")
    assert len(ball.faces) <= 5000
    assert ball.mass == pytest.approx(400.0 * 4 / 3 * np.pi * 0.03**3, rel=0.02)
    assert ball.grasp_width.max() == pytest.approx(0.06, abs=0.001)


def test_a_path_without_meshes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no mesh")
    for path in (tmp_path, tmp_path / "notes.txt", tmp_path / "missing.stl"):
        with pytest.raises(ConfigError, match="no mesh is there"):
            mesh_files(path)


def test_the_command_imports_what_it_can_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    tee().export(meshes / "tee.stl")
    scaled(tee(), 1000.0).export(meshes / "large.stl")
    out = tmp_path / "mine"
    assert main([f"meshes={meshes}", f"out={out}"]) == ExitCode.OK
    assert sorted(file.name for file in out.iterdir()) == ["sheet.png", "tee.npz"]
    assert "scale=0.001" in capsys.readouterr().err

    assert main([f"meshes={meshes / 'large.stl'}", f"out={out}"]) == ExitCode.REFUSED
    assert [graspable.family for graspable in load_set(str(out))] == ["tee"]


def test_objects_of_two_tries_differ_only_where_the_first_cannot_be_grasped(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def refuse_first(family: str, parts: object, seed: int) -> object:
        tries.append(parts)
        if len(tries) == 1:
            raise ConfigError("no grasp")
        return make_graspable(family, parts, seed=seed)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(sets, "make_graspable", refuse_first)
    made = make_object(("box", 1))
    assert len(tries) == 2
    assert made.family == "box"

# SPDX-License-Identifier: BSD-3-Clause
"""The operator, the kernels and the networks work where Isaac Lab is not installed: on a robot with a real camera."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from PIL import Image

from tests.exported import FRAMES, write_export

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("torch", "warp-lang", "numpy", "lazy_loader", "pillow", "onnxruntime")
ABSENT = ("isaaclab", "newton", "numba", "pxr", "rsl_rl", "scipy", "tensordict", "trimesh")
MODULES = (
    "isaaclab_pc.sensors.pixel_sampler",
    "isaaclab_pc.sensors.realism.kernels",
    "isaaclab_pc.guards.kernels",
    "isaaclab_pc.tensors.keyed_random",
    "isaaclab_pc.agents.networks",
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the packages of this one that `NEEDED` requires, and no others."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))

    for distribution in _with_requirements(NEEDED):
        for name in {file.parts[0] for file in distribution.files or ()} - {".."}:
            link = packages / name
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(name))))
    (packages / "isaaclab_pc").symlink_to(ROOT / "isaaclab_pc")
    return folder / "bin" / "python"


def _with_requirements(names: tuple[str, ...]) -> list[metadata.Distribution]:
    """Return the distributions of these names and all that they require, those that are installed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        requirements = (Requirement(line) for line in found[name].requires or ())
        waiting += [need.name for need in requirements if need.marker is None or need.marker.evaluate({"extra": ""})]
    return list(found.values())


def _run(python: Path, *arguments: str) -> str:
    result = subprocess.run([python, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_modules_are_imported_alone(python: Path):
    imports = "; ".join(f"import {module}" for module in MODULES)
    absent = f"import importlib.util as u; print([name for name in {ABSENT} if u.find_spec(name)])"
    assert _run(python, "-c", f"{imports}; {absent}").strip() == "[]"


def test_real_depth_images_become_clouds(python: Path, tmp_path: Path):
    depth = np.full((60, 80), 1500, dtype=np.uint16)
    depth[20:30, 20:30] = 0
    for index in range(2):
        Image.fromarray(depth).save(tmp_path / f"{index}.png")
    out = tmp_path / "clouds.npz"

    text = _run(
        python,
        str(ROOT / "examples" / "clouds_of_depth_images.py"),
        str(tmp_path),
        *("--intrinsics", "100", "100", "39.5", "29.5", "--num-points", "4800", "--out", str(out)),
    )

    assert {"0.png:", "4700", "1.500"} <= set(text.split())
    clouds = np.load(out)
    assert clouds["files"].tolist() == ["0.png", "1.png"]
    assert clouds["count"].tolist() == [4700, 4700]
    lowest = clouds["points"][0].min(axis=0)
    np.testing.assert_allclose(lowest, [-39.5 / 100 * 1.5, -29.5 / 100 * 1.5, 1.5], atol=1e-5)


def depth_images(folder: Path, *sizes: tuple[int, int]) -> None:
    """Write walls 1.5 m away, (H, W) pixels each."""
    folder.mkdir(exist_ok=True)
    for index, size in enumerate(sizes):
        Image.fromarray(np.full(size, 1500, dtype=np.uint16)).save(folder / f"{index}.png")


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run the example on a folder; return the line with which it refuses."""

    def run(folder: Path, *options: str) -> str:
        script = str(ROOT / "examples" / "clouds_of_depth_images.py")
        defaults = ("--intrinsics", "10", "10", "3", "3", "--num-points", "8", "--out", str(folder / "out.npz"))
        monkeypatch.setattr(sys, "argv", [script, str(folder), *defaults, *options])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(script, run_name="__main__")
        assert left.value.code == 2
        assert not (folder / "out.npz").exists()
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


IMAGES = {
    "rgb.png": np.zeros((6, 8, 3), dtype=np.uint8),
    "grey.png": np.full((6, 8), 150, dtype=np.uint8),
    "mask.png": np.ones((6, 8), dtype=bool),
    "larger.png": np.full((6, 9), 1500, dtype=np.uint16),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_that_holds_no_depths_of_the_camera_is_named(tmp_path: Path, refused, name: str):
    depth_images(tmp_path, (6, 8))
    Image.fromarray(IMAGES[name]).save(tmp_path / name)
    assert f"{tmp_path / name}: " in refused(tmp_path)


@pytest.mark.parametrize("kept", [0, 20, 60])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, refused, kept: int):
    depth_images(tmp_path, (60, 80), (60, 80))
    path = tmp_path / "1.png"
    path.write_bytes(path.read_bytes()[:kept])
    assert f"{path}: " in refused(tmp_path)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *((("--intrinsics", *f"{value} 10 3 3".split()), "--intrinsics") for value in ("0", "-10", "nan", "inf")),
        (("--intrinsics", "10", "0", "3", "3"), "--intrinsics"),
        (("--intrinsics", "10", "10", "nan", "3"), "--intrinsics"),
        *((("--depth-scale", value), "--depth-scale") for value in ("0", "-0.001", "nan", "inf")),
        # Metres taken for millimetres: nothing is in the crop.
        (("--depth-scale", "1"), "--depth-scale"),
        *((("--num-points", value), "num_points") for value in ("0", "-1", "49")),
        (("--sampler", "nearest"), "sampler='nearest'"),
        (("--crop-upper", "2", "-3", "2"), "crop_upper"),
        (("--crop-lower", "nan", "0", "0"), "crop_lower"),
    ],
)
def test_an_argument_that_no_camera_has_is_named(tmp_path: Path, refused, options, named: str):
    depth_images(tmp_path, (6, 8))
    assert named in refused(tmp_path, *options)


def test_a_folder_without_images_and_a_file_that_cannot_be_written_are_named(tmp_path: Path, refused):
    assert str(tmp_path) in refused(tmp_path)
    assert str(tmp_path / "none") in refused(tmp_path / "none")

    depth_images(tmp_path, (6, 8))
    out = tmp_path / "nowhere" / "out.npz"
    assert f"--out {out}" in refused(tmp_path, "--out", str(out))


def test_an_exported_policy_acts_on_depth_images(python: Path, tmp_path: Path):
    exported = write_export(tmp_path)
    text = _run(python, str(ROOT / "examples" / "deploy_onnx.py"), str(exported))
    assert text.count("\nframe ") + text.startswith("frame ") == FRAMES
    (difference,) = re.findall(r" (\S+e[+-]\d+), ", text)
    assert float(difference) < 1e-5


def test_the_loop_of_a_robot_is_imported_alone(python: Path):
    examples = f"import sys; sys.path.insert(0, {str(ROOT / 'examples')!r})"
    absent = f"print([name for name in {ABSENT} if name in sys.modules])"
    assert _run(python, "-c", f"{examples}; import robot_loop; {absent}").strip() == "[]"

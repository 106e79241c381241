# SPDX-License-Identifier: BSD-3-Clause
"""The operator, the kernels and the networks work where Isaac Lab is not installed: on a robot with a real camera."""

from __future__ import annotations

import re
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from PIL import Image

from tests.exported import FRAMES, write_export

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("torch", "warp-lang", "numpy", "numba", "lazy_loader", "pillow", "onnxruntime")
ABSENT = ("isaaclab", "newton", "pxr", "rsl_rl", "scipy", "tensordict", "trimesh")
MODULES = (
    "isaaclab_pc.sensors.cloud_ops",
    "isaaclab_pc.sensors.warp_backend",
    "isaaclab_pc.sensors.realism_kernels",
    "isaaclab_pc.guards.kernels",
    "isaaclab_pc.keyed_random",
    "isaaclab_pc.agents.networks",
)
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import isaaclab_pc.sensors.warp_backend
from isaaclab_pc.sensors import DepthToCloud
try:
    DepthToCloud(1, [(4, 4)], 2)
except ImportError:
    print("the CPU needs numba")
DepthToCloud(1, [(4, 4)], 2, backend="warp")
"""


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


def test_numba_is_needed_on_the_cpu_alone(python: Path):
    assert "the CPU needs numba" in _run(python, "-c", WITHOUT_NUMBA)


def test_real_depth_images_become_clouds(python: Path, tmp_path: Path):
    """A wall 1.5 m away that fills the image, with a hole without depth: its corners are where a pinhole puts them."""
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

    assert "0.png: 4700 points, the nearest 1.500 m away" in text
    clouds = np.load(out)
    assert clouds["files"].tolist() == ["0.png", "1.png"]
    assert clouds["count"].tolist() == [4700, 4700]
    lowest = clouds["points"][0].min(axis=0)
    np.testing.assert_allclose(lowest, [-39.5 / 100 * 1.5, -29.5 / 100 * 1.5, 1.5], atol=1e-5)


def test_a_colour_image_is_refused(python: Path, tmp_path: Path):
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    script = str(ROOT / "examples" / "clouds_of_depth_images.py")
    command = [python, script, str(tmp_path), "--intrinsics", "100", "100", "4", "4"]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "a depth image is one 16-bit channel" in result.stderr


def test_an_exported_policy_acts_on_depth_images(python: Path, tmp_path: Path):
    exported = write_export(tmp_path)
    text = _run(python, str(ROOT / "examples" / "deploy_onnx.py"), str(exported))
    assert len(re.findall(r"^frame \d+: \[", text, re.MULTILINE)) == FRAMES
    difference = re.search(r"as recorded to (\S+), over \d+ frames", text)
    assert difference is not None
    assert float(difference[1]) < 1e-5

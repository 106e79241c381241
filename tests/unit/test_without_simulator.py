# SPDX-License-Identifier: BSD-3-Clause
"""The operator, the kernels and the networks work where Isaac Lab is not installed: on a robot with a real camera."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import venv
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from packaging.requirements import Requirement
from PIL import Image

from isaaclab_pc.sensors import DepthToCloud

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("torch", "warp-lang", "numpy", "numba", "lazy_loader", "pillow", "onnxruntime")
ABSENT = ("isaaclab", "newton", "pxr", "rsl_rl", "scipy", "tensordict", "trimesh")
MODULES = (
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


NUM_POINTS = 40
FRAMES = 3
LOWER = (-1.0, -1.0, 0.2)
UPPER = (1.0, 1.0, 2.0)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """What an export writes, of a policy whose action is the cloud's mean plus what it is told."""
    mean = helper.make_node("ReduceMean", ["points"], ["mean"], axes=[1], keepdims=0)
    add = helper.make_node("Add", ["mean", "policy"], ["actions"])
    vector = helper.make_tensor_value_info("policy", TensorProto.FLOAT, ["batch", 3])
    points = helper.make_tensor_value_info("points", TensorProto.FLOAT, ["batch", NUM_POINTS, 3])
    actions = helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph([mean, add], "policy", [vector, points], [actions])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "policy.onnx"))

    settings = {"cameras": ["camera"], "num_points": NUM_POINTS, "appended_points": 0, "channels": {"xyz": [0, 3]}}
    settings |= {"sampler": "random", "voxel_size": 0.01, "crop_lower": LOWER, "crop_upper": UPPER}
    settings |= {"frame": "gripper", "crop_frame": "env", "rounded_to": "float16"}
    content = {
        "format": 1,
        "inputs": [{"name": "policy"}, {"name": "points"}],
        "output": {"clip": [-1.0, 1.0]},
        "cameras": {"camera": {"height": 12, "width": 16, "miss_from": 5.0}},
        "cloud": settings,
        "history": {"length": 1},
        "memory": [],
    }
    (tmp_path / "policy.json").write_text(json.dumps(content), encoding="utf-8")

    rng = np.random.default_rng(0)
    sample = {
        "policy": rng.normal(size=(FRAMES, 3)).astype(np.float32),
        "depth_camera": rng.uniform(0.5, 1.5, (FRAMES, 12, 16)).astype(np.float32),
        "intrinsics_camera": np.tile(np.array([[20, 0, 8], [0, 20, 6], [0, 0, 1]], dtype=np.float32), (FRAMES, 1, 1)),
        "key": np.arange(FRAMES, dtype=np.int32),
    }
    for name in ("camera", "crop", "frame"):
        position = np.array([0.1, 0.2, 0.3] if name == "frame" else [0.0, 0.0, 0.0], dtype=np.float32)
        sample[f"{name}_pos"] = np.tile(position, (FRAMES, 1))
        sample[f"{name}_quat"] = np.tile(np.array([0, 0, 0, 1], dtype=np.float32), (FRAMES, 1))
    for part in ("pos", "quat"):
        sample[f"camera_{part}_camera"] = sample.pop(f"camera_{part}")

    tensors = {name: torch.from_numpy(value) for name, value in sample.items()}
    make_clouds = DepthToCloud(FRAMES, [(12, 16)], NUM_POINTS, crop_lower=LOWER, crop_upper=UPPER, far=5.0)
    cloud = make_clouds(
        tensors["depth_camera"][:, None],
        tensors["intrinsics_camera"][:, None],
        tensors["camera_pos_camera"][:, None],
        tensors["camera_quat_camera"][:, None],
        tensors["key"],
        frame_pos=tensors["crop_pos"],
        output_pos=tensors["frame_pos"],
    )
    sample["actions"] = sample["policy"] + cloud.points.float().mean(dim=1).numpy()
    np.savez(tmp_path / "sample.npz", **sample)
    return tmp_path


def test_an_exported_policy_acts_on_depth_images(python: Path, exported: Path):
    text = _run(python, str(ROOT / "examples" / "deploy_onnx.py"), str(exported))
    assert len(re.findall(r"^frame \d+: \[", text, re.MULTILINE)) == FRAMES
    difference = re.search(r"as recorded to (\S+), over 3 frames", text)
    assert difference is not None
    assert float(difference[1]) < 1e-5


def test_actions_that_differ_from_the_recorded_ones_are_told(exported: Path, monkeypatch: pytest.MonkeyPatch):
    sample = dict(np.load(exported / "sample.npz"))
    np.savez(exported / "other.npz", **{**sample, "policy": sample["policy"] + 0.1})
    script = ROOT / "examples" / "deploy_onnx.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(exported), str(exported / "other.npz")])

    with pytest.raises(SystemExit, match="differ from the recorded ones"):
        runpy.run_path(str(script), run_name="__main__")


def test_earlier_frames_and_a_memory_are_fed_as_the_export_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The action is the sum of two frames and of what is remembered: the sum of the actions before."""
    nodes = [
        helper.make_node("ReduceSum", ["policy", "axis"], ["sum"], keepdims=1),
        helper.make_node("Squeeze", ["hidden", "first"], ["before"]),
        helper.make_node("Add", ["sum", "before"], ["actions"]),
        helper.make_node("Unsqueeze", ["actions", "first"], ["added"]),
        helper.make_node("Add", ["hidden", "added"], ["next_hidden"]),
    ]
    float_info = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph = helper.make_graph(
        nodes,
        "policy",
        [float_info("policy", shape=["batch", 2]), float_info("hidden", shape=[1, "batch", 1])],
        [float_info("actions", shape=["batch", 1]), float_info("next_hidden", shape=[1, "batch", 1])],
        [helper.make_tensor(name, TensorProto.INT64, [1], [axis]) for name, axis in (("axis", 1), ("first", 0))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "policy.onnx"))
    content = {
        "format": 1,
        "inputs": [{"name": "policy"}],
        "output": {},
        "history": {"length": 2},
        "memory": [{"input": "hidden", "output": "next_hidden", "shape": [1, "batch", 1]}],
    }
    (tmp_path / "policy.json").write_text(json.dumps(content), encoding="utf-8")
    # The frame before the first one is the first one: 1 + 1, 1 + 3 + (2), 3 + 7 + (2 + 6).
    actions = np.array([[2.0], [6.0], [18.0]], dtype=np.float32)
    np.savez(tmp_path / "sample.npz", policy=np.array([[1.0], [3.0], [7.0]], dtype=np.float32), actions=actions)

    script = ROOT / "examples" / "deploy_onnx.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    assert "as recorded to 0.0e+00, over 3 frames" in capsys.readouterr().out

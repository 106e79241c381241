# SPDX-License-Identifier: BSD-3-Clause
"""examples/deploy_onnx.py, with read_recording.py and check_recording.py, acts on a robot's frames that hold data."""

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from scipy.spatial.transform import Rotation

from tests.exported import FRAMES, columns, write_export

SCRIPT = Path(__file__).parents[2] / "examples" / "deploy_onnx.py"
MAIN = runpy.run_path(str(SCRIPT))["main"]

Arrays = dict[str, np.ndarray]
Change = Callable[[Arrays], Any]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(tmp_path_factory.mktemp("export"))


@pytest.fixture
def exported(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "export"))


def deploy(folder: Path, *recording: Path) -> object:
    """Run the example in this process; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(SCRIPT), str(folder), *map(str, recording)])
        try:
            MAIN()
        except SystemExit as end:
            return end.code
    return 0


def deploy_changed(folder: Path, change: Change, *, keep_actions: bool = False) -> object:
    """Run the example on a recording in which arrays are replaced, or left out where they are None."""
    arrays = dict(np.load(folder / "sample.npz"))
    if not keep_actions:
        del arrays["actions"]
    arrays |= change(arrays)
    path = folder / "own.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return deploy(folder, path)


@pytest.fixture
def is_refused(capsys):
    """Tell that a run ended with one line that names all these words, in the place of any action."""

    def check(code: object, *words: str) -> None:
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("error: ")
        assert [word for word in words if word not in err] == [], err

    return check


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a JSON file in place."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def in_one_frame(array: np.ndarray, value: float) -> np.ndarray:
    """Return a copy in which frame 2 has a value everywhere."""
    changed = array.copy()
    changed[2] = value
    return changed


def part(arrays: Arrays, name: str, change: Callable[[np.ndarray], Any]) -> Arrays:
    """Return the input ``policy`` in which a quantity is changed."""
    vector = arrays["policy"].copy()
    vector[:, columns(name)] = change(vector[:, columns(name)])
    return {"policy": vector}


def wxyz(quat: np.ndarray) -> np.ndarray:
    return np.roll(quat, 1, axis=-1)


def camera_turned(arrays: Arrays) -> Arrays:
    """Return the first camera's orientation as OpenGL has it."""
    turned = Rotation.from_quat(arrays["camera_quat_camera"]) * Rotation.from_quat([1.0, 0.0, 0.0, 0.0])
    return {"camera_quat_camera": turned.as_quat()}


def camera_inverted(arrays: Arrays) -> Arrays:
    """Return the world's pose in the first camera."""
    turn = Rotation.from_quat(arrays["camera_quat_camera"]).inv()
    return {"camera_quat_camera": turn.as_quat(), "camera_pos_camera": -turn.apply(arrays["camera_pos_camera"])}


def larger(arrays: Arrays, factor: int, *, scaled: bool) -> Arrays:
    """Return the first camera's images with so many pixels in the place of each, and the matrix scaled to it or not."""
    images = {name: np.kron(arrays[name], np.ones((1, factor, factor))) for name in ("depth_camera", "removed_camera")}
    scale = np.array([[factor], [factor], [1.0]]) if scaled else 1.0
    return {**images, "intrinsics_camera": arrays["intrinsics_camera"] * scale}


def test_actions_are_as_recorded_or_the_example_fails(exported: Path, capsys) -> None:
    assert deploy(exported) == 0
    out, err = capsys.readouterr()
    assert (out.count("frame "), err) == (FRAMES, "")
    code = deploy_changed(exported, lambda a: part(a, "goal_pos", lambda goal: goal + 0.1), keep_actions=True)
    assert isinstance(code, str), "Python prints it and exits with 1"


MASKS = ("removed_camera", "removed_wrist_camera")
ALIKE: dict[str, Change] = {
    "a mask of 255": lambda a: {name: (255 * a[name]).astype(np.uint8) for name in MASKS},
    "a mask of -1": lambda a: {"removed_camera": -a["removed_camera"].astype(np.int64)},
    "a mask of floats": lambda a: {"removed_camera": 0.5 * a["removed_camera"]},
    "NaN for no depth": lambda a: {"depth_camera": np.where(a["removed_camera"], np.nan, a["depth_camera"])},
    "-1 for no depth": lambda a: {"depth_camera": np.where(a["removed_camera"], -1.0, a["depth_camera"])},
    "float64": lambda a: {name: a[name].astype(float) for name in ("policy", "depth_camera", "crop_pos")},
    "no keys": lambda a: {"key": None},
    "keys of int64": lambda a: {"key": a["key"].astype(np.int64)},
}


@pytest.mark.parametrize("change", ALIKE.values(), ids=ALIKE)
def test_data_of_other_kinds_give_the_same_actions(change: Change, exported: Path) -> None:
    assert deploy_changed(exported, change, keep_actions=True) == 0


def test_images_of_clouds_may_have_any_size(exported: Path, capsys) -> None:
    assert deploy_changed(exported, lambda a: larger(a, 20, scaled=True)) == 0
    assert capsys.readouterr().out.count("frame ") == FRAMES


ALL = f"frames 0 to {FRAMES - 1}: "
DEPTHS = ("depth_camera", "depth_wrist_camera")
CAMERA_POSITIONS = ("camera_pos_camera", "camera_pos_wrist_camera")
QUATERNIONS = ("camera_quat_camera", "camera_quat_wrist_camera", "crop_quat", "frame_quat")
REFUSED: dict[str, tuple[Change, list[str]]] = {
    "no frames": (lambda a: {name: a[name][:0] for name in a}, ["no frames"]),
    "no poses": (lambda a: {"camera_pos_camera": None}, ["'camera_pos_camera'"]),
    "misspelt": (lambda a: {"crop_pos": None, "crop_poss": a["crop_pos"]}, ["'crop_pos'", " crop_poss"]),
    "fewer poses": (lambda a: {"camera_pos_camera": a["camera_pos_camera"][:1]}, ["camera_pos_camera", "(1, 3)"]),
    "one pose": (lambda a: {"frame_quat": a["frame_quat"][0]}, ["frame_quat", "(4,)"]),
    "short vector": (lambda a: {"policy": a["policy"][:, :-1]}, ["policy", f"({FRAMES}, 14)", "15"]),
    "text": (lambda a: {"policy": a["policy"].astype(str)}, ["policy"]),
    "pickled": (lambda a: {"policy": a["policy"].astype(object)}, ["own.npz"]),
    "channels": (lambda a: {"depth_camera": a["depth_camera"][..., None]}, ["depth_camera", f"({FRAMES}, 12, 16, 1)"]),
    "another mask": (lambda a: {"removed_camera": a["removed_camera"][:, 1:]}, ["removed_camera", "12, 16"]),
    "keys of float": (lambda a: {"key": a["key"] + 0.5}, ["key", "float64"]),
    "NaN": (lambda a: {"policy": in_one_frame(a["policy"], np.nan)}, ["frame 2: policy"]),
    "infinite": (lambda a: part(a, "goal_pos", lambda goal: goal + np.inf), [ALL + "policy", "12, 13, 14"]),
    "no float32": (lambda a: {"policy": a["policy"].astype(float) + 1e300}, [ALL + "policy"]),
    "NaN pose": (lambda a: {"crop_pos": in_one_frame(a["crop_pos"], np.nan)}, ["frame 2: crop_pos"]),
    "uint16": (lambda a: {"depth_camera": (1000 * a["depth_camera"]).astype(np.uint16)}, ["depth_camera", "0.001"]),
    "mm": (lambda a: {name: 1000 * a[name] for name in DEPTHS}, [" and ".join(DEPTHS), "by 0.001."]),
    "one in mm": (lambda a: {"depth_wrist_camera": 1000 * a["depth_wrist_camera"]}, [f"if {DEPTHS[1]}", "by 0.001."]),
    "0.1 mm": (lambda a: {name: 1e4 * a[name] for name in DEPTHS}, ["by 0.0001."]),
    "cm": (lambda a: {name: 100 * a[name] for name in DEPTHS}, ["by 0.01."]),
    "km": (lambda a: {name: 0.001 * a[name] for name in DEPTHS}, [ALL + "depth_camera"]),
    "behind the crop": (lambda a: {name: 3.0 * a[name] + 1.0 for name in DEPTHS}, [ALL, "cloud"]),
    "covered": (lambda a: {"depth_camera": 0 * a["depth_camera"]}, [ALL + "depth_camera"]),
    "covered once": (
        lambda a: {"depth_wrist_camera": in_one_frame(a["depth_wrist_camera"], 0.0)},
        ["frame 2: depth_wrist_camera"],
    ),
    "NaN depth": (lambda a: {"depth_camera": np.nan * a["depth_camera"]}, [ALL + "depth_camera"]),
    "infinite depth": (lambda a: {"depth_camera": np.inf * a["depth_camera"]}, [ALL + "depth_camera"]),
    "negative depth": (lambda a: {"depth_camera": -a["depth_camera"]}, [ALL + "depth_camera"]),
    "specks": (lambda a: {"depth_camera": a["depth_camera"] * (np.arange(16) == 3)}, [ALL + "depth_camera"]),
    "all removed": (lambda a: {"removed_camera": a["removed_camera"] | True}, ["if removed_camera were left out"]),
    "inverted mask": (lambda a: {"removed_camera": ~a["removed_camera"]}, ["if removed_camera were inverted"]),
    "matrix of half": (lambda a: larger(a, 2, scaled=False), ["intrinsics_camera", "(8, 6) px"]),
    "matrix of tiny": (lambda a: larger(a, 40, scaled=False), ["intrinsics_camera", "640 x 480"]),
    "fx of 0": (lambda a: {"intrinsics_camera": a["intrinsics_camera"] * [[0], [1], [1]]}, ["intrinsics_camera"]),
    "transposed": (lambda a: {"intrinsics_camera": a["intrinsics_camera"].swapaxes(1, 2)}, ["intrinsics_camera"]),
    **{f"zero {n}": (lambda a, n=n: {n: 0 * a[n]}, [ALL + n]) for n in QUATERNIONS},
    **{f"{n} of 1.1": (lambda a, n=n: {n: 1.1 * a[n]}, [ALL + n, "1.1"]) for n in QUATERNIONS},
    **{f"wxyz {n}": (lambda a, n=n: {n: wxyz(a[n])}, [f"if {n} ", "(x, y, z, w)"]) for n in QUATERNIONS},
    "all wxyz": (lambda a: {n: wxyz(a[n]) for n in QUATERNIONS}, [*QUATERNIONS, "(x, y, z, w)"]),
    "OpenGL": (camera_turned, ["if camera_quat_camera ", "180 degrees"]),
    "inverse": (camera_inverted, ["if camera_pos_camera and camera_quat_camera ", "invert"]),
    "mm of cameras": (
        lambda a: {n: 1000 * a[n] for n in CAMERA_POSITIONS},
        [f"if {' and '.join(CAMERA_POSITIONS)} ", "by 0.001."],
    ),
    **{f"mm {n}": (lambda a, n=n: {n: 1000 * a[n]}, [f"if {n} ", "by 0.001."]) for n in CAMERA_POSITIONS},
    "mm of the tool": (lambda a: {"frame_pos": 1000 * a["frame_pos"]}, ["frame_pos"]),
    "elsewhere": (lambda a: {"camera_pos_camera": a["camera_pos_camera"] + 0.6}, ["camera_pos_camera", "1.04 m"]),
    "degrees": (lambda a: part(a, "arm_joint_pos", np.degrees), ["arm_joint_pos", "rad"]),
    "tool in mm": (lambda a: part(a, "tool_pos", lambda pos: 1000 * pos), ["tool_pos", " m, "]),
    "goal in mm": (lambda a: part(a, "goal_pos", lambda pos: 1000 * pos), ["goal_pos", " m, "]),
    "zero tool_quat": (lambda a: part(a, "tool_quat", lambda quat: 0 * quat), ["tool_quat"]),
    "wxyz tool_quat": (lambda a: part(a, "tool_quat", wxyz), ["tool_quat"]),
    "unclipped": (lambda a: part(a, "last_action", lambda action: action + 7), ["last_action"]),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_frames_without_data_are_refused(change: Change, words: list[str], exported: Path, is_refused) -> None:
    is_refused(deploy_changed(exported, change), *words)


def test_what_may_be_meant_is_a_warning(exported: Path, capsys) -> None:
    def change(arrays: Arrays) -> dict[str, Any]:
        return {"depth_camera": arrays["depth_camera"][[0, 1, 1, 1]], "removed_wrist_camera": None}

    assert deploy_changed(exported, change) == 0
    out, err = capsys.readouterr()
    assert out.count("frame ") == FRAMES
    stands, is_seen = err.splitlines()
    assert stands.split()[:4] == ["warning:", "frame", "3:", "depth_camera"]
    assert "removed_wrist_camera" in is_seen


def test_single_images_may_be_empty_where_the_simulators_were(exported: Path) -> None:
    edit(exported / "policy.json", lambda content: content["cameras"]["wrist_camera"].update(least_seen=0.0))
    name = "depth_wrist_camera"
    assert deploy_changed(exported, lambda a: {name: in_one_frame(a[name], 0.0)}) == 0
    assert deploy_changed(exported, lambda a: {name: 0.0 * a[name]}) == 2


def test_an_empty_cloud_is_no_fault_where_the_simulator_had_one(exported: Path) -> None:
    edit(exported / "policy.json", lambda content: content["cloud"].update(crop_lower=[-1.0, -1.0, 1.9]))
    assert deploy_changed(exported, lambda a: {}) == 2
    edit(exported / "policy.json", lambda content: content["cloud"].update(least_points=0))
    assert deploy_changed(exported, lambda a: {}) == 0


def test_an_action_that_is_no_number_is_refused(exported: Path, is_refused) -> None:
    model = onnx.load(exported / "policy.onnx")
    model.graph.node[-1].output[0] = "sum"
    model.graph.node.extend([helper.make_node("Neg", ["sum"], ["negative"])])
    model.graph.node.extend([helper.make_node("Log", ["negative"], ["actions"])])
    onnx.save(model, exported / "policy.onnx")
    is_refused(deploy(exported), ALL)


def _write(name: str, text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def _damage_half(folder: Path, rest: bytes) -> None:
    content = (folder / "sample.npz").read_bytes()
    middle = len(content) // 2
    (folder / "sample.npz").write_bytes(content[:middle] + rest + (content[middle + 100 :] if rest else b""))


DAMAGED: list[tuple[Callable[[Path], Any], str]] = [
    (lambda folder: (folder / "policy.json").unlink(), "policy.json"),
    (lambda folder: (folder / "policy.onnx").unlink(), "policy.onnx"),
    (lambda folder: (folder / "sample.npz").unlink(), "sample.npz"),
    (_write("policy.json", "{"), "policy.json"),
    (_write("policy.json", "[]"), "policy.json"),
    (_write("policy.json", "{}"), "policy.json"),
    (_write("policy.json", '{"format": 99, "inputs": [], "output": {}, "memory": []}'), "policy.json"),
    (_write("policy.json", '{"format": 1, "inputs": [], "output": {}, "memory": []}'), "policy.onnx"),
    (_write("policy.onnx", "no model"), "policy.onnx"),
    (_write("sample.npz", "no archive"), "sample.npz"),
    (lambda folder: np.save((folder / "sample.npz").open("wb"), np.ones(3)), "sample.npz"),
    (lambda folder: _damage_half(folder, b""), "sample.npz"),
    (lambda folder: _damage_half(folder, bytes(100)), "sample.npz"),
    (lambda folder: edit(folder / "policy.json", lambda c: c.update(files={"policy.onnx": "0" * 64})), "policy.onnx"),
]


@pytest.mark.parametrize(("damage", "name"), DAMAGED)
def test_files_that_are_no_export_are_refused(damage, name: str, exported: Path, is_refused) -> None:
    damage(exported)
    is_refused(deploy(exported), f"{exported / name}: ")


def _write_depth_policy(folder: Path, entry: dict[str, Any], array: str) -> None:
    """Write a policy of images of 6 x 8 pixels whose action is their mean, and a recording."""
    node = helper.make_node("ReduceMean", ["depth"], ["actions"], axes=[2, 3], keepdims=0)
    image = helper.make_tensor_value_info("depth", TensorProto.FLOAT, ["batch", 1, 6, 8])
    actions = helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", 1])
    graph = helper.make_graph([node], "policy", [image], [actions])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "policy.onnx"))

    camera = {"least_seen": 0.8, "miss_from": 5.0}
    content = {"inputs": [{"name": "depth", **entry}], "cameras": {"camera": camera}}
    content |= {"format": 1, "output": {}, "memory": []}
    (folder / "policy.json").write_text(json.dumps(content), encoding="utf-8")
    images = np.random.default_rng(0).uniform(0.5, 1.5, (3, 6, 8))
    recording: dict[str, Any] = {array: images if array == "depth_camera" else images[:, None]}
    np.savez(folder / "sample.npz", **recording)


def test_inputs_of_another_packages_task_are_taken_as_they_are(tmp_path: Path, capsys) -> None:
    _write_depth_policy(tmp_path, {}, "depth")
    assert deploy(tmp_path) == 0
    assert capsys.readouterr().out.count("frame ") == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: {"depth_camera": 0 * a["depth_camera"]}, ["frames 0 to 2"]),
        (lambda a: {"depth_camera": 1000 * a["depth_camera"]}, ["by 0.001."]),
        (lambda a: {"depth_camera": np.kron(a["depth_camera"], np.ones((1, 3, 3)))}, ["(3, 18, 24)", "6, 8"]),
    ],
)
def test_images_that_a_policy_cannot_read_are_refused(
    change: Change, words: list[str], tmp_path: Path, capsys, is_refused
) -> None:
    _write_depth_policy(tmp_path, {"max_depth": 2.0}, "depth_camera")
    assert deploy(tmp_path) == 0
    capsys.readouterr()

    np.savez(tmp_path / "own.npz", **change(dict(np.load(tmp_path / "sample.npz"))))
    is_refused(deploy(tmp_path, tmp_path / "own.npz"), "depth_camera", *words)


def test_earlier_frames_and_a_memory_are_fed_as_the_export_says(tmp_path: Path, capsys) -> None:
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

    assert deploy(tmp_path) == 0
    assert " 0.0e+00," in capsys.readouterr().out

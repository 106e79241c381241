# SPDX-License-Identifier: BSD-3-Clause
"""examples/robot_loop.py, with robot_inputs.py, robot_commands.py and exported_policy.py, on messages of a robot."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import onnx
import pytest
from exported_policy import ExportedPolicy
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from robot_commands import Command, Commands, Limits
from robot_inputs import StopError, Timeline
from robot_loop import PolicyLoop, Reading, drive
from robot_messages import CameraInfo, Image, JointState, Message, PoseStamped, write_points
from scipy.spatial.transform import Rotation

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.rsl_rl.replay import num_steps_of
from isaaclab_pc.workers.check_demos import check_demos
from tests.exported import FRAMES, LOWER, NUM_POINTS, SIZES, UPPER, columns, write_export

PERIOD = 1.0 / 30.0
OUTPUT = {
    "rate_hz": 30.0,
    "clip": [-1.0, 1.0],
    "parts": [{"from": 0, "to": 3, "name": "tool_translation", "size": 3, "scale": 0.03}],
}
Messages = list[tuple[str, Message]]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    folder = write_export(tmp_path)
    edit(folder, output=OUTPUT)
    return folder


def edit(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    (folder / "policy.json").write_text(json.dumps(content | changes), encoding="utf-8")


@pytest.fixture
def sample(exported: Path) -> dict[str, np.ndarray]:
    return dict(np.load(exported / "sample.npz"))


def state_messages(sample: dict[str, np.ndarray], row: int, stamp: float) -> Messages:
    """Return what a robot of tests.exported tells of a frame of its sample, but for what its cameras see."""
    vector = sample["policy"][row]
    position = vector[columns("arm_joint_pos")] + [0.5, -1.0]
    messages: Messages = [
        ("joint_states", JointState(stamp, "", ["wheel", "elbow", "shoulder"], [9.0, *position[::-1]], [0.0] * 3)),
        ("tool_pose", PoseStamped(stamp, "env", vector[columns("tool_pos")], vector[columns("tool_quat")])),
        ("goal", PoseStamped(stamp, "env", vector[columns("goal_pos")])),
    ]
    for name in SIZES:
        pose = (sample[f"camera_{part}_{name}"][row] for part in ("pos", "quat"))
        messages.append((f"{name}/pose", PoseStamped(stamp, "env", *pose)))
    return messages


def image_messages(sample: dict[str, np.ndarray], row: int, stamp: float) -> Messages:
    messages = state_messages(sample, row, stamp)
    for name, (height, width) in SIZES.items():
        matrix = sample[f"intrinsics_{name}"][row] - np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])
        depth, mask = sample[f"depth_{name}"][row], sample[f"removed_{name}"][row].astype(np.uint8)
        messages += [
            (f"{name}/info", CameraInfo(stamp, name, height, width, (), matrix.ravel().tolist())),
            (f"{name}/removed", Image(stamp, name, height, width, "8UC1", 0, width, mask.tobytes())),
            (name, Image(stamp, name, height, width, "32FC1", 0, 4 * width, depth.tobytes())),
        ]
    return messages


def cloud_messages(sample: dict[str, np.ndarray], stamp: float, points: np.ndarray) -> Messages:
    """Return messages of the first frame whose cameras see points of the frame env, (K, 3), half of them each."""
    messages = state_messages(sample, 0, stamp)
    for name, part in zip(SIZES, np.array_split(points, 2), strict=True):
        camera = Rotation.from_quat(sample[f"camera_quat_{name}"][0])
        seen = camera.inv().apply(part - sample[f"camera_pos_{name}"][0])
        # Points that are none, and one outside of the crop.
        seen = np.vstack([seen, [[np.nan] * 3, [0.0, 0.0, 0.0], [0.0, 0.0, 4.0]]])
        messages.append((name, write_points(seen, stamp, name)))
    return messages


def expected_action(sample: dict[str, np.ndarray], points: np.ndarray) -> np.ndarray:
    """Return the action of tests.exported for points of the frame env, (K, 3): their mean at the tool plus the goal."""
    tool = Rotation.from_quat(sample["frame_quat"][0])
    seen = tool.inv().apply(points - sample["frame_pos"][0])
    return seen.astype(np.float16).astype(float).mean(axis=0) + sample["policy"][0, columns("goal_pos")]


class Recorded:
    """A driver that plays readings, and keeps what it is told."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings: Iterator[Reading] = iter(readings)
        self.commands: list[Command] = []
        self.reasons: list[str] = []

    def receive(self) -> Reading | None:
        return next(self._readings, None)

    def send(self, command: Command) -> None:
        self.commands.append(command)

    def hold(self, reason: str) -> None:
        self.reasons.append(reason)


def test_images_give_the_recorded_actions_and_a_log(exported: Path, sample, tmp_path: Path) -> None:
    times = PERIOD * np.arange(FRAMES)
    driver = Recorded([Reading(at, image_messages(sample, row, at), row == 0) for row, at in enumerate(times)])
    loop = PolicyLoop(ExportedPolicy(exported))
    for each in (driver, Recorded([Reading(9.0, image_messages(sample, 0, 9.0), True)])):
        drive(loop, each)
    loop.save_log(tmp_path / "log.hdf5")

    with h5py.File(tmp_path / "log.hdf5") as file:
        data: Any = file["data"]
        assert (data.attrs["total"], [data[name].attrs["num_samples"] for name in data]) == (FRAMES + 1, [FRAMES, 1])
        names = ("actions", "times/camera", "obs/policy", "commands/tool_translation")
        log = {name: data[f"demo_0/{name}"][:] for name in names}
    np.testing.assert_allclose(log["actions"], sample["actions"].clip(-1.0, 1.0), atol=1e-5)
    np.testing.assert_allclose(log["times/camera"], times)
    np.testing.assert_allclose(log["obs/policy"][1:, columns("last_action")], log["actions"][:-1], atol=1e-6)
    assert (log["obs/policy"][0, columns("last_action")] == 0.0).all()
    sent = [command.parts["tool_translation"] for command in driver.commands]
    np.testing.assert_array_equal(sent, log["commands/tool_translation"])
    assert driver.reasons == ["the program ends."]

    # What a robot did can be learned from, where actions and observations mean the same.
    path, description = tmp_path / "log.hdf5", ExportedPolicy(exported).description
    assert num_steps_of(path) == FRAMES + 1
    check_demos(str(path), description)
    with pytest.raises(ConfigError, match="rate_hz"):
        check_demos(str(path), {**description, "output": {**OUTPUT, "rate_hz": 15.0}})


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(1).uniform((-0.2, -0.2, 0.8), (0.2, 0.2, 1.2), (NUM_POINTS, 3))


def test_points_give_the_action_of_their_cloud(exported: Path, sample, points: np.ndarray) -> None:
    loop = PolicyLoop(ExportedPolicy(exported))
    loop.react(Reading(0.0, cloud_messages(sample, 0.0, points), True))
    np.testing.assert_allclose(loop.log[0][1]["actions"], expected_action(sample, points), atol=1e-4)


def test_poses_may_be_of_the_base_and_quaternions_of_either_sign(exported: Path, sample, points: np.ndarray) -> None:
    base = Rotation.from_euler("z", 30.0, degrees=True)
    robot = json.loads((exported / "policy.json").read_text(encoding="utf-8"))["robot"]
    edit(exported, robot={**robot, "base_pos": [0.1, 0.0, -0.2], "base_quat": base.as_quat().tolist()})

    def in_base(message: Message) -> Message:
        if not isinstance(message, PoseStamped):
            return message
        pos = base.inv().apply(np.asarray(message.position) - [0.1, 0.0, -0.2])
        return PoseStamped(
            message.stamp, "base", pos, -(base.inv() * Rotation.from_quat(message.orientation)).as_quat()
        )

    messages = [(topic, in_base(message)) for topic, message in cloud_messages(sample, 0.0, points)]
    loop = PolicyLoop(ExportedPolicy(exported))
    loop.react(Reading(0.0, messages, True))
    np.testing.assert_allclose(loop.log[0][1]["actions"], expected_action(sample, points), atol=1e-3)
    np.testing.assert_allclose(loop.log[0][1]["obs/policy"], sample["policy"][0], atol=1e-5)


def write_two_frames(folder: Path) -> None:
    """Let the action be the mean of the older of two clouds plus its goal."""
    size = columns("goal_pos").stop
    indices = helper.make_tensor("goal", TensorProto.INT64, [3], list(range(size))[columns("goal_pos")])
    nodes = [
        helper.make_node("Gather", ["points", "oldest"], ["cloud"], axis=1),
        helper.make_node("ReduceMean", ["cloud"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Gather", ["policy", "goal"], ["goal_pos"], axis=1),
        helper.make_node("Add", ["mean", "goal_pos"], ["actions"]),
    ]
    vector = helper.make_tensor_value_info("policy", TensorProto.FLOAT, ["batch", 2 * size])
    clouds = helper.make_tensor_value_info("points", TensorProto.FLOAT, ["batch", 2, NUM_POINTS, 3])
    actions = helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", 3])
    oldest = helper.make_tensor("oldest", TensorProto.INT64, [], [0])
    graph = helper.make_graph(nodes, "policy", [vector, clouds], [actions], [indices, oldest])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "policy.onnx"))
    edit(folder, history={"length": 2})


def test_clouds_that_come_late_or_twice_are_seen_at_their_times(exported: Path, sample, points: np.ndarray) -> None:
    write_two_frames(exported)
    clouds = [points + 0.05 * index * np.array([1.0, 0.0, 0.0]) for index in range(4)]
    sent = [cloud_messages(sample, PERIOD * index, cloud) for index, cloud in enumerate(clouds)]
    # The second cloud comes twice, the third one with the fourth and after it.
    readings = [sent[0], sent[1], sent[1], [*sent[3], *(pair for pair in sent[2] if pair[0] in SIZES)]]
    loop = PolicyLoop(ExportedPolicy(exported))
    for index, messages in enumerate(readings):
        loop.react(Reading(PERIOD * index, messages, index == 0))

    older = [expected_action(sample, clouds[index]) for index in (0, 0, 0, 2)]
    np.testing.assert_allclose([row["actions"] for _, row in loop.log], older, atol=1e-4)
    loop.react(Reading(9.0, cloud_messages(sample, 9.0, clouds[1]), True))
    np.testing.assert_allclose(loop.log[-1][1]["actions"], expected_action(sample, clouds[1]), atol=1e-4)


def test_a_policy_of_depth_images_reads_those_of_its_size(tmp_path: Path) -> None:
    """The action is the mean depth plus the state of the joint."""
    nodes = [
        helper.make_node("ReduceMean", ["depth"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("ReduceSum", ["policy", "axis"], ["joint"], keepdims=1),
        helper.make_node("Add", ["mean", "joint"], ["actions"]),
    ]
    shapes = {"policy": ["batch", 2], "depth": ["batch", 1, 6, 8], "actions": ["batch", 1]}
    *inputs, actions = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items())
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "policy", inputs, [actions], [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "policy.onnx"))
    part = {"from": 0, "to": 1, "size": 1, "unit": "rad", "meaning": ""}
    joint = [{**part, "name": "arm_joint_pos"}, {**part, "name": "arm_joint_vel", "from": 1, "to": 2}]
    content = {
        "inputs": [{"name": "policy", "parts": joint}, {"name": "depth", "max_depth": 2.0}],
        "output": {"rate_hz": 30.0, "parts": [{"name": "gripper", "scale": None, **part}]},
        "robot": {"arm_joints": ["a"], "joint_limits": {"a": [-1.0, 1.0]}, "default_joint_pos": {"a": 0.5}},
        "cameras": {"camera": {"least_seen": 0.5, "miss_from": 5.0}},
        **{"format": 1, "memory": []},
    }
    (tmp_path / "policy.json").write_text(json.dumps(content), encoding="utf-8")

    def messages(height: int) -> Messages:
        # A fifth is farther than the policy sees.
        depth = np.where(np.arange(height * 8) % 5, 1000, 3000).astype("<u2").tobytes()
        return [
            ("joint_states", JointState(0.0, "", ["a"], [0.6], [-2.0])),
            ("tool_pose", PoseStamped(0.0, "env", (0.0, 0.0, 0.0))),
            ("camera", Image(0.0, "camera", height, 8, "16UC1", 0, 16, depth)),
        ]

    loop = PolicyLoop(ExportedPolicy(tmp_path))
    command = loop.react(Reading(0.0, messages(6), True))
    np.testing.assert_allclose(command.parts["gripper"], np.mean(np.arange(48) % 5 > 0) + 0.1 - 0.2, atol=1e-6)
    with pytest.raises(StopError, match=r"depth_camera has the shape \(1, 7, 8\)"):
        loop.react(Reading(0.0, messages(7), True))


@given(
    st.lists(st.integers(0, 90).map(lambda number: number / 100.0), min_size=1, max_size=40),
    st.integers(1, 5),
    st.sampled_from([1 / 60, 1 / 30, 0.1]),
)
def test_a_history_is_what_is_nearest_to_each_time(stamps: list[float], length: int, period: float) -> None:
    timeline = Timeline(1.0)
    for order, stamp in enumerate(stamps):
        timeline.add(stamp, order)
    frames = timeline.last(length, period)
    assert len(frames) == length
    for ago, (stamp, order) in zip(reversed(range(length)), frames, strict=True):
        wanted = max(stamps) - ago * period
        assert abs(stamp - wanted) == min(abs(other - wanted) for other in stamps)
        assert max(index for index, other in enumerate(stamps) if other == stamp) == order
    assert [stamp for stamp, _ in frames] == sorted(stamp for stamp, _ in frames)


def test_what_is_old_is_forgotten() -> None:
    timeline = Timeline(1.0)
    for stamp in (0.0, 0.5, 1.2, 0.1):
        timeline.add(stamp, stamp)
    assert timeline.nearest(0.0) == (0.5, 0.5)


def of(topic: str, **changes: Any) -> Callable[[Messages], Messages]:
    """Return a change of one topic's message."""
    return lambda messages: [(name, replace(m, **changes) if name == topic else m) for name, m in messages]


def without(topic: str) -> Callable[[Messages], Messages]:
    return lambda messages: [pair for pair in messages if pair[0] != topic]


NOTHING = write_points(np.zeros((0, 3)), 1.0, "camera")
EMPTY = {name: getattr(NOTHING, name) for name in ("width", "row_step", "data")}
STOPS: dict[str, tuple[Callable[[Messages], Messages], str]] = {
    "old cloud": (of("camera", stamp=0.7), "camera is 0.300 s old"),
    "old joints": (of("joint_states", stamp=0.7), "joint_states is 0.300 s old"),
    "old tool": (of("tool_pose", stamp=0.7), "tool_pose is 0.300 s old"),
    "another clock": (of("camera", stamp=9.0), "8.000 s ahead"),
    "no time": (of("camera", stamp=np.nan), "on camera is"),
    "no joints": (without("joint_states"), "nothing has come on joint_states"),
    "no goal": (without("goal"), "nothing has come on goal"),
    "no pose": (without("camera/pose"), "nothing has come on camera/pose"),
    "empty clouds": (lambda m: of("camera", **EMPTY)(of("wrist_camera", **EMPTY)(m)), "the cloud is empty"),
    "NaN joint": (of("joint_states", position=[0.0, np.nan, 0.0]), "arm_joint_pos of policy is NaN"),
    "beyond its limits": (of("joint_states", position=[0.0, 7.0, 0.0]), "arm_joint_pos"),
    "another camera's pose": (of("camera/pose", position=(5.0, 0.0, 0.0)), "camera_pos_camera"),
    "tool of (w, x, y, z)": (of("tool_pose", orientation=(1.0, 0.0, 0.0, 0.0)), "degrees"),
    "unknown frame": (of("goal", frame_id="map"), "'map'"),
    "NaN goal": (of("goal", position=(np.nan, 0.0, 0.0)), "goal_pos of policy is NaN"),
}


@pytest.mark.parametrize(("change", "words"), STOPS.values(), ids=STOPS)
def test_the_robot_holds_where_something_is_wrong(exported: Path, sample, points, change, words: str) -> None:
    driver = Recorded([Reading(1.0, change(cloud_messages(sample, 1.0, points)), True)])
    with pytest.raises(StopError) as stop:
        drive(PolicyLoop(ExportedPolicy(exported)), driver)
    assert words in str(stop.value)
    assert (driver.reasons, driver.commands) == ([str(stop.value)], [])


def test_the_robot_holds_when_its_camera_ends(exported: Path, sample, points: np.ndarray) -> None:
    first = Reading(1.0, cloud_messages(sample, 1.0, points), True)
    driver = Recorded([first, *(Reading(at, state_messages(sample, 0, at)) for at in (1.1, 1.2, 1.3))])
    with pytest.raises(StopError, match=r"camera is 0\.300 s old"):
        drive(PolicyLoop(ExportedPolicy(exported)), driver)
    assert [command.stamp for command in driver.commands] == [1.0, 1.1, 1.2]


@pytest.mark.parametrize("position", [np.nan, 7.0])
def test_joints_are_checked_between_two_images(exported: Path, sample, points: np.ndarray, position: float) -> None:
    loop = PolicyLoop(ExportedPolicy(exported))
    loop.react(Reading(1.0, cloud_messages(sample, 1.0, points), True))
    state = of("joint_states", position=[0.0, position, 0.0])(state_messages(sample, 0, 1.1))
    with pytest.raises(StopError, match="arm_joint_pos"):
        loop.react(Reading(1.1, state))


def test_an_action_that_is_no_number_stops_the_robot(exported: Path, sample, points: np.ndarray) -> None:
    model = onnx.load(exported / "policy.onnx")
    model.graph.node[-1].output[0] = "sum"
    model.graph.node.extend([helper.make_node("Sub", ["sum", "sum"], ["zero"])])
    model.graph.node.extend([helper.make_node("Div", ["sum", "zero"], ["actions"])])
    onnx.save(model, exported / "policy.onnx")
    with pytest.raises(StopError, match="action is NaN or infinite"):
        PolicyLoop(ExportedPolicy(exported)).react(Reading(0.0, cloud_messages(sample, 0.0, points), True))


ROBOT = {"arm_joints": ["a", "b"], "joint_limits": {"a": [-1.0, 1.0], "b": [0.0, 2.0]}}
UNIT = st.floats(-1.0, 1.0)


@given(st.tuples(UNIT, UNIT, UNIT), st.tuples(UNIT, UNIT, UNIT), st.booleans(), st.integers(0, 999))
def test_the_tool_stays_in_its_workspace_and_below_its_speed(action, place, turns: bool, seed: int) -> None:
    parts = [*OUTPUT["parts"], {"from": 0, "to": 3, "name": "tool_rotation", "size": 3, "scale": 0.2}][: 1 + turns]
    limits = Limits(max_speed=0.5, max_turn=1.0, workspace_lower=LOWER, workspace_upper=UPPER)
    pos = np.clip(place, LOWER, UPPER)
    quat = Rotation.random(rng=np.random.default_rng(seed))
    commands = Commands({"output": {**OUTPUT, "parts": parts}, "robot": ROBOT}, limits)
    command = commands.make(np.array(action), 0.0, (pos, quat.as_quat()), np.zeros(2)).parts

    motion = quat.apply(command["tool_translation"]) if turns else command["tool_translation"]
    assert np.linalg.norm(motion) <= 0.5 * PERIOD + 1e-9
    assert ((pos + motion >= np.array(LOWER) - 1e-9) & (pos + motion <= np.array(UPPER) + 1e-9)).all()
    asked = 0.03 * np.array(action)
    if np.linalg.norm(asked) <= 0.5 * PERIOD and (np.abs(place) < 0.9).all() and place[2] > 0.3:
        np.testing.assert_allclose(command["tool_translation"], asked, atol=1e-9)
    assert np.linalg.norm(command.get("tool_rotation", 0.0)) <= PERIOD + 1e-9


@given(st.tuples(UNIT, UNIT), st.sampled_from(["joint_delta", "joint_position"]))
def test_joints_stay_between_their_limits_and_below_their_speed(action, name: str) -> None:
    scale = 0.07 if name == "joint_delta" else None
    output = {"rate_hz": 30.0, "parts": [{"from": 0, "to": 2, "name": name, "size": 2, "scale": scale}]}
    arm = np.array([0.99, 0.5])
    command = Commands({"output": output, "robot": ROBOT}, Limits(max_joint_speed=1.5)).make(
        np.array(action), 0.0, (np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])), arm
    )
    target = command.parts[name] + (arm if name == "joint_delta" else 0.0)
    wanted = arm + 0.07 * np.array(action) if name == "joint_delta" else np.array(action) + np.array([0.0, 1.0])
    reached = arm + (wanted - arm).clip(-1.5 * PERIOD, 1.5 * PERIOD)
    np.testing.assert_allclose(target, reached.clip([-1.0, 0.0], [1.0, 2.0]), atol=1e-9)


def test_the_driver_of_the_page_collects_messages_from_step_to_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import time.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    driver = names["MyDriver"](robot=None)
    header = SimpleNamespace(stamp=SimpleNamespace(sec=1, nanosec=0), frame_id="")
    driver.on_joints(SimpleNamespace(header=header, name=["a"], position=[1.0], velocity=[0.0]))
    first, second = driver.receive(), driver.receive()
    assert first.messages == [("joint_states", JointState(1.0, "", ["a"], [1.0], [0.0]))]
    assert (first.is_first, second.is_first, second.messages) == (True, False, [])
    assert (first.now, second.now) == pytest.approx((100.0 + PERIOD, 100.0 + 2 * PERIOD))

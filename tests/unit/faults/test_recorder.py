# SPDX-License-Identifier: BSD-3-Clause
"""The ring of the last steps and the files of those that failed, on an environment that counts."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.guards import Cause

NUM_ENVS = 5
ABOUT = {"task": "T", "config": {"seed": 3}, "backend": "newton_mjwarp"}


def proxy(tensor: torch.Tensor) -> SimpleNamespace:
    return SimpleNamespace(torch=tensor)


class CountingEnv:
    """Every number of an environment's state is ``100 * env + steps since the start``."""

    def __init__(self) -> None:
        self.num_envs, self.device, self.common_step_counter = NUM_ENVS, "cpu", 0
        self.cfg = SimpleNamespace(seed=3, decimation=2, sim=SimpleNamespace(dt=0.01))
        self.single_action_space = SimpleNamespace(shape=(2,))
        self.episode_index = torch.zeros(NUM_ENVS, dtype=torch.long)
        self.episode_length_buf = torch.zeros(NUM_ENVS, dtype=torch.long)
        self.guard = SimpleNamespace(enabled=True, causes=torch.zeros(NUM_ENVS, dtype=torch.int32), dump=None)
        self.closed = False
        self._state = {
            name: torch.zeros(NUM_ENVS, width)
            for name, width in {
                "root_pos_w": 3,
                "root_quat_w": 4,
                "root_vel_w": 6,
                "joint_pos": 2,
                "joint_vel": 2,
            }.items()
        }
        self._target = torch.zeros(NUM_ENVS, 2)
        command = SimpleNamespace(position=proxy(self._target), velocity=proxy(self._target))
        data = SimpleNamespace(**{name: proxy(value) for name, value in self._state.items()})
        robot = SimpleNamespace(data=data, actuators=SimpleNamespace(target_command=command), joint_names=["a", "b"])
        robot.num_instances = NUM_ENVS
        cube = SimpleNamespace(data=data, num_instances=NUM_ENVS)
        ground = SimpleNamespace(data=data, num_instances=1)
        origins = torch.arange(NUM_ENVS)[:, None] * torch.tensor([10.0, 0.0, 0.0])
        self.scene = SimpleNamespace(
            articulations={"robot": robot},
            rigid_objects={"cube": cube, "ground": ground},
            env_origins=origins,
        )

    def _pre_physics_step(self, action: torch.Tensor) -> None:
        self.guard.causes.zero_()
        self._target[:] = action

    def _get_dones(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def step(self, action: torch.Tensor, faulted: tuple[int, ...] = ()) -> None:
        self._pre_physics_step(action)
        self.common_step_counter += 1
        self.episode_length_buf += 1
        for value in self._state.values():
            value[:] = 100.0 * torch.arange(NUM_ENVS)[:, None] + self.common_step_counter
        self._get_dones()
        self.guard.causes[list(faulted)] = int(Cause.VELOCITY)
        for value in self._state.values():
            value[list(faulted)] = -1.0  # the reset
        self.episode_length_buf[list(faulted)] = 0
        self.episode_index[list(faulted)] += 1

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step(torch.full((NUM_ENVS, 2), float(self.common_step_counter)))


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> CountingEnv:
    monkeypatch.setattr("isaaclab_pc.faults.recorder.STEPS", 8)
    return CountingEnv()


def attach(env: CountingEnv, folder: Path, dumps: int = 3) -> Recorder:
    return Recorder.attach(env, folder, ABOUT, dumps)


@pytest.mark.parametrize("steps", [3, 8, 9, 21])
def test_a_dump_has_the_last_steps_in_their_order(env: CountingEnv, tmp_path: Path, steps: int) -> None:
    recorder = attach(env, tmp_path)
    env.run(steps - 1)
    env.step(torch.full((NUM_ENVS, 2), float(steps - 1)), faulted=(3,))
    path = recorder.flush()
    assert path is not None
    arrays = FaultDump.load(path).arrays
    kept = min(steps, 8)
    last = np.arange(steps - kept, steps)
    assert arrays["length"].tolist() == [kept]
    assert arrays["episode_step"][0].tolist() == last.tolist()
    assert arrays["action"][0, :, 0].tolist() == last.tolist()
    assert arrays["before.robot.joint_pos_target"][0, :, 1].tolist() == last.tolist(), "targets of the step itself"
    before = arrays["before.robot.joint_pos"][0, :, 0]
    assert before.tolist() == [300.0 + step if step else 0.0 for step in last]
    assert arrays["after.robot.joint_vel"].tolist() == [[300.0 + steps] * 2], "not the state after the reset"
    assert arrays["after.cube.root_pose"][0, 0] == 300.0 + steps - 30.0, "in the environment's own frame"
    assert (arrays["env_id"].item(), arrays["step"].item(), arrays["episode"][0, 0]) == (3, steps, 0)


def test_steps_before_the_last_reset_are_left_out(env: CountingEnv, tmp_path: Path) -> None:
    recorder = attach(env, tmp_path, dumps=2)
    env.run(4)
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(1,))
    env.run(2)
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(1, 2))
    recorder.flush()
    assert len(recorder.paths) == 2
    arrays = FaultDump.load(recorder.paths[1]).arrays
    assert arrays["env_id"].tolist() == [1, 2]
    assert arrays["length"].tolist() == [3, 8]
    assert arrays["episode"].tolist() == [[1, 1, 1, *[-1] * 5], [0] * 8]
    assert arrays["episode_step"].tolist() == [[0, 1, 2, *[-1] * 5], list(range(8))]
    assert np.isnan(arrays["before.robot.joint_pos"][0, 3:]).all()


def test_a_failure_is_written_in_the_next_step_without_being_asked(env: CountingEnv, tmp_path: Path) -> None:
    recorder = attach(env, tmp_path)
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(0,))
    assert recorder.paths == []
    env.run(1)
    assert [path.name for path in recorder.paths] == ["dump_0.npz"]


def tensor_bytes(recorder: Recorder) -> int:
    """Memory of all tensors that a recorder holds [B]."""
    return sum(value.nbytes for value in vars(recorder).values() if isinstance(value, torch.Tensor))


def test_the_first_failures_are_kept_and_no_more_than_asked(
    env: CountingEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isaaclab_pc.faults.recorder.ENVS", 2)
    recorder = attach(env, tmp_path, dumps=2)
    before = tensor_bytes(recorder)
    for _ in range(5):
        env.step(torch.zeros(NUM_ENVS, 2), faulted=(0, 2, 4))
    dumps = [FaultDump.load(path) for path in sorted(tmp_path.iterdir())]
    assert [dump.arrays["step"].tolist() for dump in dumps] == [[1, 1], [2, 2]]
    assert [dump.arrays["env_id"].tolist() for dump in dumps] == [[0, 2], [0, 2]]
    assert not recorder.active
    assert tensor_bytes(recorder) < before / 10


def test_a_resumed_run_counts_the_files_that_are_there(env: CountingEnv, tmp_path: Path) -> None:
    attach(env, tmp_path, dumps=2)
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(0,))
    env.close()
    first = (tmp_path / "dump_0.npz").read_bytes()
    again = CountingEnv()
    attach(again, tmp_path, dumps=2)
    for _ in range(3):
        again.step(torch.zeros(NUM_ENVS, 2), faulted=(0,))
    again.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump_0.npz", "dump_1.npz"]
    assert (tmp_path / "dump_0.npz").read_bytes() == first


def test_closing_writes_what_is_left_of_what_the_environments_do_not_share(env: CountingEnv, tmp_path: Path) -> None:
    recorder = attach(env, tmp_path)
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(0,))
    env.close()
    assert env.closed
    (path,) = recorder.paths
    assert sorted(FaultDump.load(path).about["assets"]) == ["cube", "robot"]


@pytest.mark.parametrize(("dumps", "guarded"), [(0, True), (3, False)])
def test_an_environment_of_which_nothing_is_recorded_is_left_alone(
    env: CountingEnv, tmp_path: Path, dumps: int, guarded: bool
) -> None:
    env.guard.enabled = guarded
    untouched = set(vars(env))
    recorder = attach(env, tmp_path, dumps=dumps)
    assert set(vars(env)) == untouched
    assert not recorder.active
    assert tensor_bytes(recorder) == 0


def test_the_ring_is_bounded_in_memory(env: CountingEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isaaclab_pc.faults.recorder.STEPS", 64)
    full = tensor_bytes(attach(CountingEnv(), tmp_path))
    monkeypatch.setattr("isaaclab_pc.faults.recorder.RING_BYTES", full // 8)
    recorder = attach(env, tmp_path)
    assert tensor_bytes(recorder) < full / 2
    env.run(30)
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(0,))
    env.close()
    assert 8 < FaultDump.load(recorder.paths[0]).arrays["length"].item() < 31


def test_a_full_disk_ends_the_recording_and_not_the_run(
    env: CountingEnv, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    recorder = attach(env, tmp_path / "file" / "dumps")
    env.step(torch.zeros(NUM_ENVS, 2), faulted=(0,))
    env.run(2)
    assert str(tmp_path) in caplog.text
    assert not recorder.active


def test_a_dump_names_what_was_found_in_each_environment(env: CountingEnv, tmp_path: Path) -> None:
    recorder = attach(env, tmp_path)
    recorder.before_step(torch.zeros(NUM_ENVS, 2))
    recorder.after_targets()
    env.guard.causes[1] = int(Cause.ACTION | Cause.JOINT_VELOCITY)
    env.guard.causes[3] = int(Cause.DEPTH)
    recorder.after_step()
    path = recorder.flush()
    assert path is not None
    dump = FaultDump.load(path)
    assert [dump.causes_of(0), dump.causes_of(1)] == [["action", "joint_velocity"], ["depth"]]


def test_a_guard_that_raises_gets_the_file_in_the_middle_of_the_step(env: CountingEnv, tmp_path: Path) -> None:
    set_target = env._pre_physics_step

    def raising(action: torch.Tensor) -> None:
        set_target(action)
        if action[2, 0] > 99:
            env.guard.causes[2:4] = int(Cause.ACTION)
            env.guard.dump(torch.tensor([2]))
            raise RuntimeError

    env._pre_physics_step = raising
    recorder = attach(env, tmp_path)
    env.run(3)
    with pytest.raises(RuntimeError):
        env.step(torch.full((NUM_ENVS, 2), 1e9))
    (path,) = recorder.paths
    arrays = FaultDump.load(path).arrays
    assert arrays["env_id"].tolist() == [2]
    assert arrays["action"][0, :, 0].tolist() == [0.0, 1.0, 2.0, 1e9]

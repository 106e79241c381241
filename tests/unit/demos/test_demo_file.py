# SPDX-License-Identifier: BSD-3-Clause
"""A file of demonstrations: its layout, and that it grows by whole episodes whatever happens."""

import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from isaaclab.utils.datasets import HDF5DatasetFileHandler

from isaaclab_pc.demos.demo_file import DemoCounts, DemoFile
from isaaclab_pc.errors import ConfigError
from tests.no_locks import without_locks
from tests.recorded_demos import attributes_of
from tests.unit.commands.demo_helpers import POINTS, STEPS, add_wave, recorded, settings

WAVE = "seed_000000000043"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demos.hdf5"


def read(path: Path) -> Any:
    """The file's seeds in order, read to the last value."""
    with h5py.File(path) as file:
        data: Any = file["data"]
        found = []
        for index in range(len(data)):
            demo = data[f"demo_{index}"]
            assert (demo["actions"][:, 0] == 100.0 * demo.attrs["seed"] + 10.0 * demo.attrs["env"] + range(STEPS)).all()
            found.append((int(demo.attrs["seed"]), int(demo.attrs["env"])))
        assert data.attrs["total"] == STEPS * len(data)
        return found


def test_the_layout_is_robomimics(path: Path) -> None:
    recorded(path, 42)
    with h5py.File(path) as file:
        data: Any = file["data"]
        arguments = json.loads(data.attrs["env_args"])
        assert (arguments["env_name"], arguments["type"]) == ("IsaacPC-Lift-Cube-Franka-Direct", 2)
        assert list(data) == ["demo_0", "demo_1"]
        demo = data["demo_1"]
        assert (demo.attrs["num_samples"], demo.attrs["seed"], demo.attrs["success"]) == (STEPS, 42, True)
        assert (demo["obs/points"].shape, demo["obs/points"].dtype) == ((STEPS, POINTS, 3), "float16")
        assert demo["obs/points"].compression == "gzip"
        assert (demo["obs/policy"].shape, demo["obs/policy"].dtype) == ((STEPS, 6), "float32")
        assert demo["dones"][:].tolist() == [0] * (STEPS - 1) + [1]
        assert demo["states/rigid_object/cube/root_pose"].shape == (STEPS, 7)
        assert demo["initial_state/rigid_object/cube/root_pose"].shape == (1, 7)


def test_isaac_lab_reads_it_and_takes_its_quaternions_as_they_are(path: Path) -> None:
    recorded(path, 42, 43)
    handler = HDF5DatasetFileHandler()
    handler.open(str(path))
    assert (handler.get_num_episodes(), handler.is_legacy_quaternion_format()) == (4, False)
    episode = handler.load_episode("demo_2", "cpu")
    handler.close()
    assert episode is not None
    assert (episode.seed, bool(episode.success)) == (43, True)
    assert torch.equal(episode.data["actions"][:, 0], 4300.0 + torch.arange(STEPS))


def test_later_waves_are_appended_and_counted(path: Path) -> None:
    recorded(path, 42)
    file = recorded(path, 43, 44)
    assert read(path) == [(seed, env) for seed in (42, 43, 44) for env in (0, 1)]
    assert file.progress() == DemoCounts(episodes=6, attempts=9, successes=6, next_seed=45)
    assert list(path.parent.iterdir()) == [path]


def test_waves_that_are_not_merged_count_and_wait_for_the_next_recorder(path: Path) -> None:
    file = recorded(path, 42)
    # Nothing of this wave is kept.
    add_wave(file, 43, envs=0)
    add_wave(file, 44)
    expected = DemoCounts(episodes=4, attempts=9, successes=4, next_seed=45)
    assert DemoFile(path).progress() == expected
    with file.locked():
        file.merge()
    assert read(path) == [(42, 0), (42, 1), (44, 0), (44, 1)]
    assert file.progress() == expected


@pytest.mark.parametrize(
    "name", [f"{WAVE}.hdf5", f".{WAVE}.hdf5.7.hdf5", f".{WAVE}.hdf5.7.tmp", "../.demos.hdf5.7.tmp"]
)
@pytest.mark.parametrize("size", [0, 3000])
def test_a_half_written_wave_is_dropped_and_its_seed_comes_again(path: Path, name: str, size: int) -> None:
    file = recorded(path, 42)
    add_wave(file, 43)
    whole = file.parts / f"{WAVE}.hdf5"
    torn = whole.rename(file.parts / name)
    os.truncate(torn, size)
    assert file.progress() == DemoCounts(episodes=2, attempts=3, successes=2, next_seed=43)
    add_wave(file, 43)
    file.merge()
    assert read(path) == [(42, 0), (42, 1), (43, 0), (43, 1)]
    assert list(file.parts.iterdir()) == []
    assert sorted(path.parent.iterdir()) == [path, file.parts]


def test_a_merge_that_was_killed_before_it_tidied_up_adds_nothing_twice(path: Path) -> None:
    file = recorded(path, 42)
    add_wave(file, 43)
    copy = shutil.copytree(file.parts, path.parent / "copy")
    file.merge()
    shutil.copytree(copy, file.parts, dirs_exist_ok=True)
    assert file.progress().episodes == 4
    file.merge()
    assert read(path) == [(42, 0), (42, 1), (43, 0), (43, 1)]
    assert list(file.parts.iterdir()) == []


def test_an_error_while_merging_leaves_file_and_waves(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = recorded(path, 42)
    before = path.read_bytes()
    add_wave(file, 43)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            file.merge()
    assert path.read_bytes() == before
    file.merge()
    assert read(path) == [(42, 0), (42, 1), (43, 0), (43, 1)]


@pytest.mark.parametrize(
    ("change", "recorded_with"),
    [
        ("task=push", "task=IsaacPC-Lift-Cube-Franka-Direct, .*IsaacPC-Push-Cube-Franka-Direct"),
        ("obs=depth", "obs=points, .*depth"),
        ("points.num_points=64", r"points\.num_points=null, .*64"),
        ("physics.dt=0.01", r"physics\.dt=null, .*0\.01"),
        ("seed=1", "seed=42, .*1"),
    ],
)
def test_demonstrations_of_other_settings_are_refused(path: Path, change: str, recorded_with: str) -> None:
    waiting = DemoFile(path.with_name("waiting.hdf5"))
    add_wave(waiting, 42)
    for file in (recorded(path, 42), waiting):
        file.check(settings("num_envs=7", "max_iterations=3"))  # neither changes what an episode is
        with pytest.raises(ConfigError, match=recorded_with):
            file.check(settings(change))


def test_other_files_are_refused_and_kept(path: Path) -> None:
    path.write_text("no HDF5")
    with pytest.raises(ConfigError, match=str(path)):
        DemoFile(path).check(settings())
    assert path.read_text() == "no HDF5"
    with h5py.File(path, "w") as file:
        file.create_group("data")
    with pytest.raises(ConfigError, match=str(path)):
        DemoFile(path).check(settings())
    with pytest.raises(ConfigError, match=r"\.hdf5"):
        DemoFile(path.with_suffix(".h5"))


def test_two_recorders_never_share_a_file(path: Path) -> None:
    with DemoFile(path).locked(), pytest.raises(ConfigError, match="another process"), DemoFile(path).locked():
        pass
    assert list(path.parent.iterdir()) == []


def test_a_file_on_a_disk_without_locks_is_refused_and_nothing_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_locks(monkeypatch)
    with pytest.raises(ConfigError, match=rf"file={path}: "):
        DemoFile(path).locked().__enter__()
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(path: Path) -> None:
    path.write_text("in the way")
    with pytest.raises(ConfigError, match=f"{path}/demos.hdf5"):
        DemoFile(path / "demos.hdf5").locked().__enter__()


def test_the_documented_way_to_read_gives_batches_of_steps(path: Path) -> None:
    recorded(path, 1, 2)
    page = (Path(__file__).parents[3] / "docs" / "demos.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    read: dict[str, Any] = {}
    exec(code.replace("logs/demo/lift/demos.hdf5", str(path)), read)
    assert len(read["episodes"]) == 4
    assert (read["points"].shape, read["points"].dtype) == ((4 * STEPS, POINTS, 3), torch.float32)
    assert {100, 100 + STEPS - 1, 200} <= set(read["actions"][:, 0].tolist())


def test_reading_and_merging_ask_for_no_lock_of_hdf5(path: Path) -> None:
    recorded(path, 1)
    with path.open() as file:
        # What HDF5 would wait for.
        fcntl.flock(file, fcntl.LOCK_EX)
        assert DemoFile(path).progress().episodes == 2
        assert len(attributes_of(path)) == 2
        recorded(path, 2)
        assert DemoFile(path).progress().episodes == 4

# SPDX-License-Identifier: BSD-3-Clause
"""The parent of a recording, with a fake environment behind the process boundary."""

import re
import sys
from pathlib import Path

import pytest

from isaaclab_pc.commands import demo
from isaaclab_pc.demos import convert
from isaaclab_pc.run import jobs
from isaaclab_pc.run.jobs import DemoJob
from tests.recorded_demos import attributes_of

FAKE = Path(__file__).with_name("fake_demo_child.py")
NEVER = 99
LIFT = ["task=lift", "physics=newton_mjwarp", "device=cpu", "num_envs=3", "seed=4"]
"""Waves of two successful episodes out of three."""


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Work in an empty folder, with children that kill themselves in a certain wave."""
    monkeypatch.chdir(tmp_path)

    def install(kill_at: int = NEVER) -> None:
        monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(FAKE), str(kill_at)))

    return install


def seeds(path: Path) -> list[int]:
    return [episode["seed"] for episode in attributes_of(path)]


def test_a_killed_recording_goes_on_where_it_was_and_a_higher_number_appends(child, tmp_path: Path, capsys) -> None:
    path = tmp_path / "logs" / "demo" / "lift" / "demos.hdf5"
    child(kill_at=2)
    assert demo.main([*LIFT, "episodes=5"]) == 1
    assert {"137", "2", "5"} <= set(re.findall(r"\d+", capsys.readouterr().err))
    assert seeds(path) == [4, 4]

    child()
    assert demo.main([*LIFT, "episodes=5"]) == 0
    out = capsys.readouterr().out
    assert [name for name in ("66.7", "2 episodes", "5 episodes", "9)") if name not in out] == []
    assert str(path.relative_to(tmp_path)) in out
    assert seeds(path) == [4, 4, 5, 5, 6]

    assert demo.main([*LIFT, "episodes=6"]) == 0
    assert seeds(path) == [4, 4, 5, 5, 6, 7]
    assert demo.main([*LIFT, "episodes=3"]) == 0
    assert seeds(path) == [4, 4, 5, 5, 6, 7]
    assert len(list(path.parent.glob("*/job.json"))) == 3


def test_what_is_recorded_follows_the_settings(child, tmp_path: Path) -> None:
    child()
    path = tmp_path / "new" / "all.hdf5"
    changes = ("keep=all", "disturbances=0.2", f"file={path}", "env.episode_length_s=3")
    assert demo.main([*LIFT, "episodes=3", *changes]) == 0
    assert [episode["success"] for episode in attributes_of(path)] == [True, True, False]
    (job,) = (DemoJob.read(found) for found in tmp_path.glob("logs/demo/lift/*/job.json"))
    assert (job.disturbances, job.settings.num_envs) == (0.2, 3)
    assert job.settings.env_overrides == ["env.episode_length_s=3"]
    assert list(path.parent.iterdir()) == [path]


def test_a_file_of_other_settings_is_refused(child, tmp_path: Path, refused) -> None:
    child()
    assert demo.main([*LIFT, "episodes=1", "file=a.hdf5"]) == 0
    before = (tmp_path / "a.hdf5").read_bytes()
    refused(demo, [*LIFT, "episodes=2", "file=a.hdf5", "obs=depth"], "file=a.hdf5 obs=points depth")
    assert (tmp_path / "a.hdf5").read_bytes() == before


def test_few_episodes_need_few_environments(child, tmp_path: Path) -> None:
    child()
    given = [text for text in LIFT if not text.startswith("num_envs")]
    assert demo.main([*given, "episodes=2"]) == 0
    (settings,) = (DemoJob.read(found).settings for found in tmp_path.glob("logs/demo/lift/*/job.json"))
    assert settings.num_envs == 2


def test_depth_maps_come_with_images_without_errors(child, tmp_path: Path, refused) -> None:
    child()
    assert demo.main([*LIFT, "episodes=1", "depth=true"]) == 0
    (job,) = (DemoJob.read(found) for found in tmp_path.glob("logs/demo/lift/*/job.json"))
    assert (job.with_depth, job.settings.points.source) == (True, "image")
    refused(demo, [*LIFT, "depth=true", "points.realism=stereo"], "depth=true points.realism=stereo")
    refused(demo, [*LIFT, "depth=true", "obs=depth"], "depth=true obs=depth")


def test_a_recording_is_converted_once_it_has_enough_episodes(
    child, tmp_path: Path, refused, capfd, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = tmp_path / "lerobot_dataset.py"
    converter.write_text(
        "import sys\nprint('converted', *sys.argv[1:])\nprint('why', file=sys.stderr)\nsys.exit(len(sys.argv[2]) > 3)\n"
    )
    monkeypatch.setattr(convert, "CONVERTER", converter)
    lerobot = [*LIFT, "episodes=1", "file=a.hdf5", "format=lerobot"]
    child(kill_at=1)
    assert demo.main([*lerobot, "out=new"]) == 1
    assert "converted" not in capfd.readouterr().out

    child()
    assert demo.main([*lerobot, "out=new"]) == 0
    assert "converted a.hdf5 new" in capfd.readouterr().out
    assert demo.main([*lerobot, "out=fails"]) == 1
    error = capfd.readouterr().err
    assert ("why" in error, "is whole" in error, "lerobot_dataset.py a.hdf5 fails" in error) == (True, True, True)

    (tmp_path / "there").mkdir()
    refused(demo, [*lerobot, "out=there"], "out=there")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    refused(demo, [*lerobot, "out=new"], "format=lerobot uv")

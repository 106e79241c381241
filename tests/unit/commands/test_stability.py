# SPDX-License-Identifier: BSD-3-Clause
"""``scale.py --stability`` with a fake child: what the user sees and finds afterwards."""

import json
import sys
from pathlib import Path

import pytest

from isaaclab_pc.commands import scale
from isaaclab_pc.physics import backends
from isaaclab_pc.run import jobs
from tests.waiting import signal_us_when

FAKE_CHILD = Path(__file__).with_name("fake_stability_child.py")
ARGS = ("--stability", "task=lift", "device=cpu", "physics=ovphysx", "physics.position_iterations=8")
WAITS, REFUSED, BREAKS_OFF, CRASHES = 1, 2, 3, 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, in which children are fakes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(FAKE_CHILD)))
    monkeypatch.setattr(backends, "is_installed", lambda module: module == "ovphysx")
    return tmp_path


@pytest.fixture
def result(folder):
    """Read what the only measurement wrote."""

    def read() -> dict:
        (path,) = (folder / "logs" / "scale").glob("*/*/stability.json")
        assert (path.parent / "stability.png").stat().st_size > 1000
        return json.loads(path.read_text(encoding="utf-8"))

    return read


def test_the_table_the_files_and_the_cheapest_that_holds(folder, result, capsys):
    assert scale.main([*ARGS, "env.action=joint_delta"]) == 0
    content = result()
    assert [cell["failures"]["state"] for cell in content["cells"]] == [2, 1, 0]
    assert content["cheapest"] == {"dt": pytest.approx(1 / 120)}
    output = capsys.readouterr().out
    assert "[3/3] decimation=4: 0 (< 300) failures per million steps, 250 steps/s" in output
    assert (
        "python scripts/train.py task=lift device=cpu physics.position_iterations=8 env.action=joint_delta "
        "physics=ovphysx physics.dt=0.00833333" in output
    )


def test_physics_is_measured_without_a_camera_unless_it_is_asked_for(folder):
    assert scale.main(ARGS) == 0
    (seen,) = (folder / "logs" / "scale").glob("*/*/seen.json")
    settings = json.loads(seen.read_text(encoding="utf-8"))
    assert (settings["obs"], settings["num_envs"], settings["eval"]["episodes"]) == ("state", 64, 64)


def test_a_crash_costs_one_setting(result, capsys):
    assert scale.main([*ARGS, f"seed={CRASHES}"]) == 0
    cells = result()["cells"]
    assert [bool(cell["note"]) for cell in cells] == [False, True, False]
    assert len({tuple(cell["settings"]) for cell in cells}) == 1, "a crashed one is in the same row of the picture"
    assert "the simulator crashed (exit code 139)" in capsys.readouterr().out


@pytest.mark.usefixtures("no_garbage_collection")
def test_ctrl_c_keeps_what_was_measured(folder, result):
    with signal_us_when((folder / "waiting").exists):
        assert scale.main([*ARGS, f"seed={WAITS}"]) == 130
    assert len(result()["cells"]) == 1


@pytest.mark.parametrize(("seed", "code", "message"), [(REFUSED, 2, "no such field"), (BREAKS_OFF, 1, "it broke")])
def test_an_error_ends_the_measurement_with_its_message(folder, capfd, seed, code, message):
    assert scale.main([*ARGS, f"seed={seed}"]) == code
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("physics.preset=fast", "physics.preset"),
        ("guard.mode=disabled", "guard.mode=disabled"),
        ("--plan", "--plan and --stability"),
    ],
)
def test_what_does_not_go_with_it_is_refused(folder, capsys, argument, message):
    assert scale.main([*ARGS, argument]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "logs").exists()

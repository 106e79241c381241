# SPDX-License-Identifier: BSD-3-Clause
"""``scale.py --stability`` with a fake child: what the user sees and finds afterwards."""

import json

import pytest

from isaaclab_pc.commands import scale
from isaaclab_pc.physics import backends
from tests.waiting import signal_us_when

ARGS = ("--stability", "task=lift", "device=cpu", "physics=ovphysx", "physics.position_iterations=8")
WAITS, REFUSED, BREAKS_OFF, CRASHES = 1, 2, 3, 4


@pytest.fixture
def result(folder, monkeypatch):
    """Read what the only measurement wrote."""
    monkeypatch.setattr(backends, "is_installed", lambda module: module == "ovphysx")

    def read() -> dict:
        (path,) = (folder / "logs" / "scale").glob("*/*/stability.json")
        return json.loads(path.read_text(encoding="utf-8"))

    return read


def test_the_table_the_files_and_the_cheapest_that_holds(folder, result, seen, capsys):
    assert scale.main([*ARGS, "env.action=joint_delta"]) == 0
    content = result()
    assert [cell["failures"] for cell in content["cells"]] == [2, 1, 0]
    assert content["cheapest"] == {"dt": pytest.approx(1 / 120)}
    output = capsys.readouterr().out
    assert "[3/3] decimation=4\n  0 (< 300) failures" in output
    given = "task=lift device=cpu physics.position_iterations=8 env.action=joint_delta"
    assert f"python scripts/train.py {given} physics=ovphysx physics.dt=0.00833333" in output

    (measured,) = (folder / "logs" / "scale").glob("*/*")
    settings = seen(measured)["settings"]
    assert (settings["obs"], settings["num_envs"], settings["eval"]["episodes"]) == ("state", 64, 64)


def test_a_crash_costs_one_setting(result, capsys):
    assert scale.main([*ARGS, f"seed={CRASHES}"]) == 0
    cells = result()["cells"]
    assert [bool(cell["note"]) for cell in cells] == [False, True, False]
    assert len({tuple(cell["settings"]) for cell in cells}) == 1, "a crashed one is in the same row of the picture"
    assert "139" in capsys.readouterr().out


@pytest.mark.usefixtures("no_garbage_collection")
def test_ctrl_c_keeps_what_was_measured(folder, result):
    with signal_us_when((folder / "waiting").exists):
        assert scale.main([*ARGS, f"seed={WAITS}"]) == 130
    assert len(result()["cells"]) == 1


@pytest.mark.parametrize(("seed", "code", "error"), [(REFUSED, 2, "error: "), (BREAKS_OFF, 1, "RuntimeError: ")])
@pytest.mark.usefixtures("result")
def test_an_error_ends_the_measurement(capfd, seed, code, error):
    assert scale.main([*ARGS, f"seed={seed}"]) == code
    assert error in "".join(capfd.readouterr())

# SPDX-License-Identifier: BSD-3-Clause
"""robomimic's own loader reads what is recorded. Its environment is downloaded."""

import json
import subprocess
from pathlib import Path

import pytest

from isaaclab_pc.demos import convert
from tests.unit.commands.demo_helpers import POINTS, STEPS, recorded


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_robomimic_reads_the_steps_of_each_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = recorded(tmp_path / "demos.hdf5", 1, 2)
    monkeypatch.setattr(convert, "CONVERTER", Path(__file__).with_name("read_robomimic.py"))
    command = convert.conversion("this test", file.path, tmp_path)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])

    assert (read["episodes"], read["points"], len(read["actions"])) == (4, [2, POINTS, 3], 4 * STEPS)
    # The last step of an episode is repeated.
    assert read["actions"][:STEPS] == [[100 + step, 100 + min(step + 1, STEPS - 1)] for step in range(STEPS)]
    assert read["states"][1] == [101, 102]

# SPDX-License-Identifier: BSD-3-Clause
"""Evaluating a checkpoint around a fake session."""

import io
import json
import signal
from pathlib import Path

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.jobs import PlayJob
from isaaclab_pc.terminal.screen import Lines
from isaaclab_pc.workers import play as worker
from tests.unit.workers.fake_session import SETTINGS

JOB = PlayJob(compose(SETTINGS), Path("model_2.pt"))


def test_playing_writes_the_result_beside_its_settings_and_shows_where_the_policy_fails(run, fake_session):
    session, stream = fake_session(), io.StringIO()
    session.env.randomized_factors = lambda: {"cube_x": torch.arange(4.0)}
    assert worker.play(JOB, run, Lines(stream)) == 0
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert (result["checkpoint"], result["success"]["rate"], result["episodes"]) == ("model_2.pt", 1.0, 8)
    assert result["settings"] == JOB.settings.model_dump()
    assert [part["factor"] for part in result["breakdown"]] == ["cube_x"]
    assert "[67.6, 100.0]" in stream.getvalue()
    assert stream.getvalue().splitlines()[-1].split()[0] == "cube_x"
    assert session.runner.loaded == (Path("model_2.pt"), {"task": "IsaacPC-Reach-Franka-Direct"})
    assert session.env.closed


def test_an_evaluation_that_is_stopped_leaves_no_result(run, fake_session, monkeypatch):
    session = fake_session()
    monkeypatch.setattr(session.runner, "act", lambda obs: signal.raise_signal(signal.SIGINT) or obs["policy"])
    with pytest.raises(SystemExit) as ended:
        worker.play(JOB, run, Lines(io.StringIO()))
    assert ended.value.code == 130
    assert not (run / "result.json").exists()
    assert session.env.closed

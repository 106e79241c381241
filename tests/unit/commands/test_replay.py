# SPDX-License-Identifier: BSD-3-Clause
"""The parent of a replay with a fake child behind the process boundary, and what makes a finding."""

import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.cli.command_line import parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.commands import replay
from isaaclab_pc.faults.dump import FORMAT, SIMULATION_PACKAGES, FaultDump
from isaaclab_pc.faults.replay_result import Fault, Reading, ReplayResult
from isaaclab_pc.faults.replay_state import make_readings
from isaaclab_pc.run import jobs
from isaaclab_pc.run.jobs import ReplayJob
from isaaclab_pc.utils.packages import installed_versions
from isaaclab_pc.workers.resolve import resolve

NAN = float("nan")
VERSIONS = installed_versions(SIMULATION_PACKAGES)
FAULT = Fault(
    step=1,
    substep=2,
    offenders=(
        Reading("robot", "joint6", "joint velocity [rad/s]", value=NAN, bound=52.2, excess=math.inf),
        Reading("cube", "cube", "position [m]", value=-123.4, bound=-100.0, excess=1.234),
    ),
    num_offenders=5,
    trace=(3.0, 41.25),
)
FOUND = ReplayResult(
    backend="newton_mjwarp",
    dt=1 / 60,
    decimation=2,
    episode_step=(4, 5, 6),
    from_each_step=True,
    fault=FAULT,
    differences=(2e-5,),
)
NOT_FOUND = replace(FOUND, fault=None, from_each_step=False, differences=(1e-5, 0.25, 0.5))


def make_dump(**about: Any) -> FaultDump:
    settings = compose(["task=lift", "physics=newton_mjwarp", "device=cpu", "num_envs=16", "seed=7"])
    content = {
        "format": FORMAT,
        "task": settings.task,
        "config": settings.model_dump(),
        "seed": 7,
        "backend": "newton_mjwarp",
        "versions": VERSIONS,
        "dt": 1 / 60,
        "decimation": 2,
        "assets": {"cube": {"kind": "rigid_object", "joints": []}},
        "causes": ["action", "state"],
    }
    arrays = {
        "env_id": np.array([3, 9]),
        "cause": np.array([2, 2]),
        "step": np.array([40, 40]),
        "length": np.array([3, 3]),
        "episode": np.full((2, 3), 6),
        "episode_step": np.array([[4, 5, 6]] * 2),
        "action": np.zeros((2, 3, 4), dtype=np.float32),
    }
    return FaultDump(content | about, arrays)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    make_dump().save(tmp_path / "dump_0.npz")
    return tmp_path / "dump_0.npz"


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Replace the child by one that writes a result and exits with a code."""

    def install(result: ReplayResult | None, code: int = 0) -> Callable[[], ReplayJob]:
        script = tmp_path / "child.py"
        script.write_text(
            "import pathlib, sys\n"
            f"result = {None if result is None else result.to_json()!r}\n"
            "if result: pathlib.Path(sys.argv[2]).with_name('result.json').write_text(result)\n"
            f"sys.exit({code})"
        )
        monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, str(script)))
        return lambda: ReplayJob.read(next(tmp_path.glob("replay/*/job.json")))

    return install


def test_the_finding_names_the_physics_step_the_joint_and_the_value(dump: Path, child, capsys) -> None:
    child(FOUND)
    assert replay.main([f"dump={dump}"]) == 0
    out = capsys.readouterr().out
    introduction = r"environment 3 \S+ \S+ \S+ newton_mjwarp, seed 7, episode 6: state \S+ step 40 "
    assert re.search(introduction, out)
    assert re.search(r"step 2 of 3 \(step 5 .*\), physics step 2 of 2\n", out)
    assert "robot joint6: joint velocity nan rad/s, bound 52.2\n" in out
    assert ": 3, 41.25\n" in out
    assert "cube: position -123.4 m, bound -100\n" in out
    assert " 3 more " in out
    assert " 2e-05 " in out


def test_a_fault_that_does_not_reproduce_is_no_error(dump: Path, child, capsys) -> None:
    child(NOT_FOUND)
    assert replay.main([f"dump={dump}"]) == 0
    out = capsys.readouterr().out
    assert "not reproduce" in out
    assert "step 2, by 0.25 rad " in out


def test_the_child_gets_one_environment_with_the_runs_settings(dump: Path, child) -> None:
    job = child(FOUND)
    assert replay.main([f"dump={dump}", "env=9", "physics.substeps=4"]) == 0
    assert (job().dump, job().position) == (dump, 1)
    settings = job().settings
    assert (settings.num_envs, settings.obs, settings.seed) == (1, "state", 7)
    assert settings.physics.backend == "newton_mjwarp"
    assert settings.physics.substeps == 4


def test_the_rest_of_the_run_is_as_recorded_but_a_replay_does_not_stop_or_open_a_window(tmp_path: Path, child) -> None:
    config = make_dump().about["config"] | {"visualizer": "newton_gl"}
    config["physics"]["dt"] = 0.01
    config["guard"]["mode"] = "raise"
    make_dump(config=config).save(tmp_path / "a.npz")
    job = child(FOUND)
    assert replay.main([f"dump={tmp_path / 'a.npz'}", "physics=newton_mjwarp"]) == 0
    settings = job().settings
    assert (settings.physics.dt, settings.guard.mode, settings.visualizer) == (0.01, "quarantine", None)


def test_a_replay_that_is_watched_ends_with_ctrl_c_and_tells_its_finding(dump: Path, child, capsys, has_visualizers):
    has_visualizers("viser")
    job = child(FOUND, code=130)
    assert replay.main([f"dump={dump}", "visualizer=viser"]) == 0
    assert "first fault" in capsys.readouterr().out
    settings = job().settings
    assert (settings.visualizer, settings.obs) == ("viser", "points"), "who watches sees the clouds of the run, too"
    assert replay.main([f"dump={dump}"]) == 130, "without a visualizer Ctrl-C ends it"
    child(None, code=130)
    assert replay.main([f"dump={dump}", "visualizer=viser"]) == 130, "a child without a finding was only stopped"


def test_what_the_child_leaves_is_checked(dump: Path, child, capsys) -> None:
    child(replace(FOUND, fault=replace(FAULT, offenders=())))
    assert replay.main([f"dump={dump}"]) == 1
    captured = capsys.readouterr()
    assert "fault.offenders" in captured.err
    assert "first fault" not in captured.out


def test_a_result_keeps_numbers_that_are_not_finite() -> None:
    again = ReplayResult.from_json(replace(FOUND, differences=(1e-5, NAN)).to_json())
    assert again.fault is not None
    assert (again.fault.offenders[0].excess, again.fault.trace) == (math.inf, FAULT.trace)
    assert math.isnan(again.fault.offenders[0].value)
    assert math.isnan(again.differences[1])


@pytest.mark.parametrize(
    ("about", "arguments", "words"),
    [
        ({"versions": {**VERSIONS, "isaaclab_pc": "0.0.1"}}, [], "isaaclab_pc==0.0.1"),
        ({"config": {}}, [], "settings"),
        ({"config": {"task": "IsaacPC-Lift-Cube-Franka-Direct"}}, [], "agent,"),
        ({"config": {"task": "IsaacPC-Lift-Cube-Franka-Direct", "tsk": 1}}, [], "tsk task"),
        ({"task": "IsaacPC-Reach-Point-Franka-Direct"}, [], "IsaacPC-Reach-Point-Franka-Direct Lift-Cube"),
        ({}, ["env=4"], "env=4 3, 9"),
        ({}, ["task=reach"], "task=reach IsaacPC-Lift-Cube-Franka-Direct"),
        ({}, ["num_envs=3"], "num_envs"),
    ],
)
def test_a_dump_of_something_else_or_a_wrong_setting_is_refused(dump: Path, child, refused, about, arguments, words):
    child(FOUND)
    make_dump(**about).save(dump)
    refused(replay, [f"dump={dump}", *arguments], words)
    assert not (dump.parent / "replay").exists()


def test_a_version_of_a_solver_that_differs_is_a_note(tmp_path: Path, child, capsys) -> None:
    child(FOUND)
    make_dump(versions={**VERSIONS, "newton": "0.9"}).save(tmp_path / "a.npz")
    assert replay.main([f"dump={tmp_path / 'a.npz'}"]) == 0
    assert re.search("note: .* newton 0.9", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("row", "low", "high", "value", "bound", "excess"),
    [
        ([1.0, -10.0], -10.0, 10.0, -10.0, -10.0, 1.0),
        ([0.0, -30.0], -10.0, 10.0, -30.0, -10.0, 3.0),
        ([math.inf], -10.0, 10.0, math.inf, 10.0, math.inf),
        ([-math.inf], -10.0, 10.0, -math.inf, -10.0, math.inf),
        ([20.0, NAN], -10.0, 10.0, NAN, 10.0, math.inf),
        ([3.0], torch.tensor([0.0]), torch.tensor([4.0]), 3.0, 4.0, 0.5),
    ],
)
def test_the_worst_component_speaks_for_its_body(row, low, high, value, bound, excess) -> None:
    (reading,) = make_readings("robot", "speed [m/s]", ["link"], torch.tensor([row]), low, high)
    assert [reading.value, reading.bound, reading.excess] == pytest.approx([value, bound, excess], nan_ok=True)


def test_what_only_a_policy_needs_does_not_keep_a_dump_from_its_replay():
    settings = compose(
        ["task=lift", "physics=newton_mjwarp", "device=cpu", "encoder=dp3"],
        env=["env.history_length=2", "env.gripper=true"],
    ).with_values({"teacher": "/gone/model_9.pt", "demos": "/gone/demos.hdf5"})
    dump = make_dump(config=settings.model_dump())
    replayed = replay._settings(dump, parse_command([]))
    assert (replayed.obs, replayed.encoder, replayed.teacher, replayed.demos) == ("state", "auto", None, None)
    assert replayed.env_overrides == ["env.gripper=true"]
    resolve(replayed, 1)

    seen = replay._settings(dump, parse_command(["visualizer=viser"]))
    assert (seen.obs, seen.encoder, seen.env_overrides) == ("points", "dp3", settings.env_overrides)

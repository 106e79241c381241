# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a run that died and went on."""

from benchmarks.fault_picture import Life, Moment, deaths_of, draw, lives_of
from isaaclab_pc.run.record import RunData

RECORD = RunData(
    task="reach",
    runner="rsl_rl",
    algorithm="ppo",
    experiment="reach",
    started="2026-01-01T12:00:00+00:00",
    ended="2026-01-01T12:10:00+00:00",
    num_envs=8,
    max_iterations=30,
    completed_iterations=30,
    versions={},
    git=None,
)


def event(name: str, minute: int, iteration: int) -> dict[str, object]:
    return {"event": name, "time": f"2026-01-01T12:{minute:02}:00.000+00:00", "iteration": iteration}


def test_a_death_before_the_first_iteration_belongs_to_the_same_recovery(tmp_path):
    events = [
        event("died", 2, 10),
        {"event": "restart", "time": "2026-01-01T12:02:00.000+00:00", "from_iteration": 8},
        event("died", 3, 8),
        event("recovered", 5, 9),
        event("died", 6, 15),
        event("recovered", 7, 15),
    ]
    lives = lives_of(RECORD, events)
    assert lives == [
        Life(Moment(0, 0), Moment(2, 10)),
        Life(Moment(5, 9), Moment(6, 15)),
        Life(Moment(7, 15), Moment(10, 30)),
    ]
    deaths = deaths_of(RECORD, events)
    assert deaths == [Moment(2, 10), Moment(3, 8), Moment(6, 15)]
    assert draw(lives, deaths, "reach", tmp_path / "run.png") == [180, 60]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_without_a_death_is_one_line(tmp_path):
    lives = lives_of(RECORD, [])
    assert lives == [Life(Moment(0, 0), Moment(10, 30))]
    assert draw(lives, [], "reach", tmp_path / "run.png") == []

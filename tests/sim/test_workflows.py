# SPDX-License-Identifier: BSD-3-Clause
"""The life of a run on real physics, in processes of its own: searched, killed, stopped, resumed, reported, played."""

import json
import signal
from pathlib import Path

import pytest

from isaaclab_pc.run.iteration_log import ITERATIONS_NAME
from tests.sim.training import Training, run_program
from tests.unit.report.test_page import Reader, rows

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

SMALL = ["agent.samples_per_update=64", "eval.episodes=4", "env.episode_length_s=0.5"]
SIZE = ["num_envs=auto", "scaling.min=4", "scaling.max=4", "scaling.cache=ignore"]


def check_report(run: Path) -> None:
    """Check that the report of a run that was evaluated has every figure, with the numbers of the run's record."""
    page = Reader((run / "report.html").read_text(encoding="utf-8"))
    data = json.loads((run / "run.json").read_text(encoding="utf-8"))
    iterations = [json.loads(line) for line in (run / ITERATIONS_NAME).read_text(encoding="utf-8").splitlines()]
    losses = {name for entry in iterations for name in entry["metrics"] if name.startswith("loss/")}
    seen = {name for name in page.tables if name.startswith("seen-")}
    learning = {name for name in page.tables if name.startswith("learning-")}
    assert {"seen-first", "seen-last"} < seen, "and an episode that succeeded or failed"
    assert len(learning) >= len(losses) > 0
    assert page.tables.keys() - seen - learning == {
        *("success-steps", "success-time", "return-steps", "return-time", "rewards", "fps", "split", "memory-host"),
        "trials",
    }

    def number(cell: str) -> float:
        return float(cell.replace(",", ""))

    def near(*values: float) -> object:
        return pytest.approx(values, rel=1e-3, abs=1e-3)

    result = data["evaluation"]
    unit = page.tables["success-time"][0][1]
    seconds = {"time [s]": 1, "time [min]": 60, "time [h]": 3600}[unit]
    for figure, x in (("success-steps", data["env_steps"]), ("success-time", data["wall_s"] / seconds)):
        (end,) = [row for row in rows(page, figure) if row[0] == "evaluated at the end"]
        interval = [100 * result["success"][name] for name in ("rate", "lower", "upper")]
        assert [*map(number, end[1:3]), *map(number, end[3].split(" to "))] == near(x, *interval)
    times = [entry["metrics"][name] for name in ("collect_s", "learn_s") for entry in iterations]
    assert [number(row[2]) for row in rows(page, "split")] == near(*times)
    memory = [number(row[2]) for row in rows(page, "memory-host") if row[0] == "in use"]
    assert memory == near(*(entry["metrics"]["Memory/host_bytes"] / 2**30 for entry in iterations))

    for text in (
        f"{data['completed_iterations']} of {data['max_iterations']}",
        f"{data['env_steps']:,}",
        f"{data['num_envs']} environments on {data['device']}, {data['physics']}",
        f"{100 * result['success']['rate']:.1f} %",
        f"{result['mean_return']:.2f}",
        f"{data['peak_bytes'] / 2**30:.1f} GiB",
        "by purpose",
        "recovered",
    ):
        assert text in page.text, text


@pytest.fixture(scope="module")
def stopped(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A run of a size that was searched, killed once, and stopped with Ctrl-C after it had gone on by itself."""
    settings = [f"physics={backend}", "max_iterations=100000", *SMALL, *SIZE]
    with Training(tmp_path_factory.mktemp("run"), *settings) as training:
        training.wait_for_checkpoint().kill()
        training.wait_for_event("recovered")
        training.stop(signal.SIGINT)
    return training


def test_killed_it_goes_on_by_itself_and_ctrl_c_stops_it(stopped: Training, backend: str) -> None:
    data = stopped.record
    (restart,) = data["restarts"]
    assert (restart["cause"], restart["from_iteration"] > 0) == ("killed", True)
    assert stopped.events("recovered")[0]["iteration"] > restart["from_iteration"]
    assert data["completed_iterations"] > restart["from_iteration"]

    assert (data["num_envs"], data["physics"]) == (4, backend)
    trial = data["trials"][-1]
    assert trial["frames_per_second"] > 0
    assert set(trial["seconds"]) == {"build", "rollout", "update"}
    assert set(data["guard"].values()) == {0}
    assert "num_envs: 4" in (stopped.run / "params" / "env.yaml").read_text(encoding="utf-8")
    assert "samples_per_update: 64" in (stopped.run / "params" / "agent.yaml").read_text(encoding="utf-8")


def test_it_is_resumed_evaluated_reported_and_played(stopped: Training) -> None:
    folder, last = stopped.run.parents[3], stopped.record["completed_iterations"] + 2
    # As a debugger would: in the script's own process.
    resume = ("resume=latest", f"max_iterations={last}", "supervise.enabled=false")
    output = run_program(folder, "scripts/train.py", *resume)
    assert f"iteration {last}/{last}" in output
    assert f"iteration {last - 2}/" not in output
    assert [path.name for path in stopped.run.parent.iterdir()] == [stopped.run.name]
    data = stopped.record
    assert (data["status"], data["completed_iterations"]) == ("completed", last)
    assert data["evaluation"]["episodes"] == 4
    check_report(stopped.run)

    run_program(folder, "scripts/play.py", "eval.episodes=8")
    (result,) = stopped.run.glob("play/*/result.json")
    assert json.loads(result.read_text(encoding="utf-8"))["episodes"] == 8

# SPDX-License-Identifier: BSD-3-Clause
"""The scripts on real physics, in processes of their own: train, interrupt, resume, evaluate."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.run.iteration_log import ITERATIONS_NAME
from tests.unit.report.test_page import Reader, rows

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[2]
SMALL = ["num_envs=4", "device=cpu", "agent.samples_per_update=64", "eval.episodes=4", "env.episode_length_s=0.5"]


class Scripts:
    """Runs the scripts in a folder of their own."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder = folder
        self.backend = backend

    def command(self, name, *arguments):
        return [sys.executable, str(ROOT / "scripts" / name), *arguments]

    def run(self, name, *arguments, code=0):
        """Run a script to its end; return what it printed."""
        command = self.command(name, *arguments)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def runs(self):
        return sorted(self.folder.glob("logs/*/*/*"))


@pytest.fixture
def scripts(tmp_path: Path, backend: str) -> Scripts:
    return Scripts(tmp_path, backend)


def record(run: Path) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def check_report(run: Path) -> None:
    """Check that the report of a run that was evaluated has every figure, with the numbers of the run's record."""
    page, data = Reader((run / "report.html").read_text(encoding="utf-8")), record(run)
    iterations = [json.loads(line) for line in (run / ITERATIONS_NAME).read_text(encoding="utf-8").splitlines()]
    losses = {name for entry in iterations for name in entry["metrics"] if name.startswith("loss/")}
    seen = {name for name in page.tables if name.startswith("seen-")}
    learning = {name for name in page.tables if name.startswith("learning-")}
    assert {"seen-first", "seen-last"} < seen, "and an episode that succeeded or failed"
    assert len(learning) >= len(losses) > 0
    assert page.tables.keys() - seen - learning == {
        *("success-steps", "success-time", "return-steps", "return-time", "rewards", "fps", "split", "memory-host")
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
    for row, entry in zip(rows(page, "split"), iterations, strict=True):
        metrics = entry["metrics"]
        assert [*map(number, row)] == near(entry["iteration"], metrics["collect_s"], metrics["learn_s"])
    last_memory = iterations[-1]["metrics"]["Memory/host_bytes"] / 2**30
    assert [number(rows(page, "memory-host")[-1][1])] == near(last_memory)

    for text in (
        f"{data['completed_iterations']} of {data['max_iterations']} iterations",
        f"{data['env_steps']:,} environment steps",
        f"with {data['num_envs']} environments on {data['device']}, {data['physics']}",
        f"{100 * result['success']['rate']:.1f} %",
        f"{result['episodes']} episodes",
        f"{result['mean_return']:.2f}",
        f"{data['peak_bytes'] / 2**30:.1f} GiB",
        "The guard ended no episode",
        "No process died, hung or was replaced.",
    ):
        assert text in page.text, text


@pytest.mark.slow_on_newton
def test_train_resume_and_play(scripts: Scripts) -> None:
    output = scripts.run("train.py", "max_iterations=2", f"physics={scripts.backend}", *SMALL)
    assert "iteration 2/2" in output
    assert " at the end, " in output
    (run,) = scripts.runs()
    first = record(run)
    assert (first["status"], first["completed_iterations"], first["physics"]) == ("completed", 2, scripts.backend)
    assert first["evaluation"]["episodes"] == 4
    assert set(first["guard"].values()) == {0}
    assert "num_envs: 4" in (run / "params" / "env.yaml").read_text(encoding="utf-8")
    assert "samples_per_update: 64" in (run / "params" / "agent.yaml").read_text(encoding="utf-8")
    check_report(run)

    # As a debugger would: in the script's own process.
    output = scripts.run("train.py", "resume=latest", "max_iterations=3", "supervise.enabled=false")
    assert "iteration 3/3" in output
    assert "iteration 2/3" not in output
    assert scripts.runs() == [run]
    assert record(run)["completed_iterations"] == 3
    check_report(run)

    output = scripts.run("play.py", "eval.episodes=8")
    assert " at the end, " in output
    (result,) = run.glob("play/*/result.json")
    assert json.loads(result.read_text(encoding="utf-8"))["episodes"] == 8


@pytest.mark.parametrize("backend", [pytest.param("ovphysx", marks=pytest.mark.physx)])
def test_ctrl_c_writes_a_checkpoint_and_leaves_no_child(scripts: Scripts) -> None:
    command = scripts.command("train.py", "max_iterations=100000", f"physics={scripts.backend}", *SMALL)
    process = subprocess.Popen(command, cwd=scripts.folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("iteration"):
            assert line, "the worker ended before its first iteration"
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 75
    assert "stopping: writing a checkpoint" in output
    assert family
    assert psutil.wait_procs(family, timeout=5)[1] == []
    (run,) = scripts.runs()
    data = record(run)
    assert data["status"] == "interrupted"
    assert (run / data["checkpoints"]["latest"]["path"]).is_file()
    assert data["checkpoints"]["latest"]["iteration"] == data["completed_iterations"]


@pytest.mark.parametrize("backend", [pytest.param("ovphysx", marks=pytest.mark.physx)])
def test_auto_tries_real_training_in_children(scripts: Scripts) -> None:
    sizes = ["num_envs=auto", "scaling.min=4", "scaling.max=4", "scaling.cache=ignore"]
    output = scripts.run("train.py", "max_iterations=1", f"physics={scripts.backend}", *SMALL[1:], *sizes)
    assert "num_envs=4: fits" in output
    (run,) = scripts.runs()
    (trial,) = record(run)["trials"]
    assert trial["frames_per_second"] > 0
    assert set(trial["seconds"]) == {"build", "rollout", "update"}
    assert record(run)["num_envs"] == 4

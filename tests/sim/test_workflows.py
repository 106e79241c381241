# SPDX-License-Identifier: BSD-3-Clause
"""The scripts on real physics, in processes of their own: train, interrupt, resume, evaluate."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

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
    page = (run / "report.html").read_text(encoding="utf-8")
    assert all(f'id="figure-{name}"' in page for name in ("success-steps", "return-time", "split"))

    # As a debugger would: in the script's own process.
    output = scripts.run("train.py", "resume=latest", "max_iterations=3", "supervise.enabled=false")
    assert "iteration 3/3" in output
    assert "iteration 2/3" not in output
    assert scripts.runs() == [run]
    assert record(run)["completed_iterations"] == 3
    assert "3 of 3 iterations" in (run / "report.html").read_text(encoding="utf-8")

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

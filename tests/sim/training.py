# SPDX-License-Identifier: BSD-3-Clause
"""A training script as a user starts it, for tests that disturb it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "scripts" / "train.py"
SMALL = [
    *("physics=ovphysx", "device=cpu", "num_envs=16", "algorithm=ppo"),
    *("supervise.checkpoint_interval=1", "eval.episodes=16", "eval.best_share=0", "env.episode_length_s=1"),
]
RECORDS = "logs/*/*/*/run.json"


def begin_every_process_with(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **environ: str) -> None:
    """Let each Python process, those of the scripts included, run a program first."""
    (folder / "sitecustomize.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', '')}")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


def run_program(folder: Path, program: str | Path, *arguments: str, **environ: str) -> str:
    """Run a program of the repository to its end, in a folder, and return what it printed."""
    command = [sys.executable, str(ROOT / program), *arguments]
    env = {**os.environ, **environ}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Training:
    """A training script in a folder of its own, and the process that trains below it.

    Of several values for one setting the last one counts.
    """

    def __init__(
        self, folder: Path, *settings: str, runner: str = "rsl_rl", samples_per_update: int = 128, log: str = "output"
    ) -> None:
        section = "agent.params.config" if runner == "rl_games" else "agent"
        agent = [f"runner={runner}", f"{section}.samples_per_update={samples_per_update}"]
        self._start(folder, [*SMALL, *agent, *settings], log)

    @classmethod
    def resumed(cls, folder: Path, *settings: str) -> "Training":
        """Go on with the only run of a folder."""
        (record,) = folder.glob(RECORDS)
        training = cls.__new__(cls)
        training._start(folder, [f"resume={record.parent.relative_to(folder)}", *settings])
        return training

    def _start(self, folder: Path, settings: list[str], log: str = "output") -> None:
        self._folder = folder
        self._output = (folder / log).open("w", encoding="utf-8")
        given = {setting.partition("=")[0]: setting for setting in settings}
        command = [sys.executable, str(TRAIN), *given.values()]
        self.script = subprocess.Popen(command, cwd=folder, stdout=self._output, stderr=subprocess.STDOUT)

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *_: object) -> None:
        self.script.kill()
        self.script.wait()
        self._output.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> Any:
        """Stop the script with a signal; return the record of the run, which ended with a checkpoint and in order."""
        self.script.send_signal(number)
        assert self.script.wait(timeout=120) == 75, self.output
        record = self.record
        latest = record["checkpoints"]["latest"]
        assert (record["status"], latest["iteration"]) == ("interrupted", record["completed_iterations"])
        assert (self.run / latest["path"]).is_file()
        assert processes_of(self.run) == []
        return record

    @property
    def run(self) -> Path:
        (record,) = self._folder.glob(RECORDS)
        return record.parent

    @property
    def record(self) -> Any:
        return json.loads((self.run / "run.json").read_text(encoding="utf-8"))

    @property
    def output(self) -> str:
        return Path(self._output.name).read_text(encoding="utf-8")

    def beat(self) -> dict[str, Any]:
        """What the process that trains did last; empty where it did nothing yet."""
        try:
            return json.loads((self.run / "heartbeat.json").read_text(encoding="utf-8"))
        except (ValueError, OSError):
            return {}

    def wait_until(self, phase: str, seconds: float = 120.0) -> psutil.Process:
        """Wait until a process has come to a phase of its heartbeat, and return it."""
        return self._wait(lambda beat: beat.get("phase") == phase, seconds)

    def wait_for(self, iteration: int, after: int = 0, seconds: float = 120.0) -> psutil.Process:
        """Wait until a process other than the one before has done so many iterations, and return it."""

        def has_come(beat: dict[str, Any]) -> bool:
            trains = beat.get("phase") in ("train", "evaluate")
            return trains and beat["pid"] != after and beat["iteration"] >= iteration

        return self._wait(has_come, seconds)

    def wait_for_checkpoint(self) -> psutil.Process:
        """Wait until the run has a checkpoint, and return the process that trains."""
        return self._wait(lambda beat: bool(beat) and self.record["checkpoints"]["latest"] is not None, 300.0)

    def _wait(self, has_come: Callable[[dict[str, Any]], bool], seconds: float) -> psutil.Process:
        deadline = time.monotonic() + seconds
        while True:
            assert self.script.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            beat = self.beat()
            if has_come(beat):
                return psutil.Process(beat["pid"])
            time.sleep(0.05)

    def wait_for_event(self, name: str) -> None:
        """Wait until an event stands in the run's log."""
        self._wait(lambda _: bool(self.events(name)), 120.0)

    def events(self, name: str) -> list[dict[str, Any]]:
        path = self.run / "events.jsonl"
        if not path.exists():
            return []
        events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [event for event in events if event["event"] == name]


def uv() -> str:
    """Return the uv of the environment that the tests run in."""
    found = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert found is not None
    return found


def processes_of(run: Path) -> list[str]:
    """Command lines of the processes that train a run."""
    return [line for process in psutil.process_iter() if str(run.name) in (line := _command_line(process))]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""

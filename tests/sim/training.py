# SPDX-License-Identifier: BSD-3-Clause
"""A training script as a user starts it, for tests that disturb it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "scripts" / "train.py"
SMALL = [
    *("physics=ovphysx", "device=cpu", "num_envs=16", "algorithm=ppo"),
    *("supervise.checkpoint_interval=1", "eval.episodes=16", "eval.best_share=0", "env.episode_length_s=1"),
]
RECORDS = "logs/*/*/*/run.json"


def run_program(folder: Path, program: str, *arguments: str) -> str:
    """Run a program of the repository to its end, in a folder, and return what it printed."""
    command = [sys.executable, str(ROOT / program), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Training:
    """A training script in a folder of its own, and the process that trains below it."""

    def __init__(self, folder: Path, *settings: str, runner: str = "rsl_rl", samples_per_update: int = 128) -> None:
        section = "agent.params.config" if runner == "rl_games" else "agent"
        agent = [f"runner={runner}", f"{section}.samples_per_update={samples_per_update}"]
        self._start(folder, [*SMALL, *agent, *settings])

    @classmethod
    def resumed(cls, folder: Path, *settings: str) -> "Training":
        """Go on with the only run of a folder."""
        (record,) = folder.glob(RECORDS)
        training = cls.__new__(cls)
        training._start(folder, [f"resume={record.parent.relative_to(folder)}", *settings])
        return training

    def _start(self, folder: Path, settings: list[str]) -> None:
        self._folder = folder
        self._output = (folder / "output").open("w", encoding="utf-8")
        command = [sys.executable, str(TRAIN), *settings]
        self.script = subprocess.Popen(command, cwd=folder, stdout=self._output, stderr=subprocess.STDOUT)

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *_: object) -> None:
        self.script.kill()
        self.script.wait()
        self._output.close()

    @property
    def run(self) -> Path:
        (record,) = self._folder.glob(RECORDS)
        return record.parent

    @property
    def record(self) -> Any:
        return json.loads((self.run / "run.json").read_text(encoding="utf-8"))

    @property
    def output(self) -> str:
        return (self._folder / "output").read_text(encoding="utf-8")

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
        return self._wait(lambda beat: bool(beat) and self.record["checkpoints"]["latest"] is not None, 120.0)

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


def processes_of(run: Path) -> list[str]:
    """Command lines of the processes that train a run."""
    return [line for process in psutil.process_iter() if str(run.name) in (line := _command_line(process))]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""

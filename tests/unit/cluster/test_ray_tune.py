# SPDX-License-Identifier: BSD-3-Clause
"""A real Ray cluster on this machine, real trials in real processes; only what they train is made up."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FAKE = Path(__file__).with_name("fake_tune.py")
SECONDS = 600
"""Ray takes a minute to start on two busy cores."""


class Driver:
    """``scripts/tune.py`` as a process, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Every trial takes three seconds.
        (folder / "faults").write_text("slow\n" * 99, encoding="utf-8")

    def start(self, *arguments: str) -> None:
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        self.log = (self.folder / "log").open("a", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(FAKE), *arguments],
            cwd=self.folder,
            env=environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def end(self) -> int:
        code = self.process.wait(SECONDS)
        self.log.close()
        return code

    def output(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def tuning(self) -> Path:
        (folder,) = (self.folder / "logs" / "tune" / "reach").iterdir()
        return folder

    def records(self) -> dict[str, dict]:
        paths = sorted(self.folder.glob("logs/tune/reach/*/*/run.json"))
        return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}

    def wait_for(self, condition) -> None:
        wait_until(condition, SECONDS, every=0.1, alive=self.process, said=self.output)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def ours(self) -> list[psutil.Process]:
        """Return what runs trials, without Ray's own processes."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(Path(part).name.startswith("fake_") or part.startswith("ray::") for part in process.cmdline()):
                    found.append(process)
        return found


@pytest.fixture
def driver(tmp_path):
    driver = Driver(tmp_path)
    yield driver
    left = driver.family() if driver.process.poll() is None else []
    driver.process.kill()
    driver.process.wait()
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def is_training(record: dict) -> bool:
    return record["status"] == "running" and record["checkpoints"]["latest"] is not None


def workers(family: list[psutil.Process]) -> dict[str, psutil.Process]:
    """Return the Ray workers that run trials, by the name of the trial's folder."""
    found = {}
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            line = process.cmdline()
            if str(FAKE) in line and "trial" in line:
                found[Path(line[-1]).name] = psutil.Process(process.ppid())
    return found


def test_a_lost_worker_goes_on_from_its_checkpoint_and_bad_trials_end_early(driver):
    driver.start("task=reach", "device=cpu", "algorithm=ppo", "num_envs=8", "seed=9,7,5,3", "grace_iterations=2")
    driver.wait_for(lambda: driver.output().count("iteration 0") and any(map(is_training, driver.records().values())))
    name = next(name for name, record in driver.records().items() if is_training(record))
    worker = workers(driver.family())[name]
    family = driver.family()
    worker.send_signal(signal.SIGKILL)
    assert driver.end() == 0, driver.output()

    records = driver.records()
    assert len(records) == 4
    assert records[name]["status"] == "completed" or records[name]["resumed"]
    assert any(record["resumed"] for record in records.values()), "it went on"
    assert f"trial {name}: " in driver.output()
    assert {record["status"] for record in records.values()} <= {"completed", "interrupted"}
    assert any(record["status"] == "completed" for record in records.values())

    lines = (driver.tuning() / "results.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("trial,seed,status,iterations,success_rate,")
    assert all(re.search(r",(completed|stopped early),", line) for line in lines[1:])
    (command,) = re.findall(r"python scripts/train\.py (.*)", driver.output())
    assert command.split()[:5] == ["task=reach", "device=cpu", "algorithm=ppo", "num_envs=8", "seed=9"]
    assert "Traceback" not in driver.output()
    assert psutil.wait_procs(family, timeout=20)[1] == []


SEARCH = ("task=reach", "device=cpu", "algorithm=ppo", "num_envs=8", "seed=1,2,3", "tuner=random", "concurrent=1")


def finish(driver: Driver, before: dict[str, dict]) -> None:
    """Go on with a search, to its end: what had completed is as it was, the others went on from their checkpoints."""
    driver.start(f"resume={driver.tuning()}")
    assert driver.end() == 0, driver.output()
    records = driver.records()
    assert all(records[name] == record for name, record in before.items() if record["status"] == "completed")
    assert [record["completed_iterations"] for record in records.values()] == [10] * 3
    # A trial that is about to end may complete while a script that was killed takes its cluster down.
    begun = sum(record["status"] != "completed" for record in before.values())
    assert sum(len(record["resumed"]) for record in records.values()) == begun
    assert "the best is" in driver.output()
    assert [path.name for path in driver.folder.iterdir() if path.name not in ("log", "faults", "starts", "cache")] == [
        "logs"
    ]


def one_has_completed_and_one_trains(driver: Driver) -> bool:
    records = driver.records().values()
    return any(record["status"] == "completed" for record in records) and any(map(is_training, records))


def test_a_search_that_is_stopped_goes_on_and_runs_nothing_twice(driver):
    driver.start(*SEARCH)
    driver.wait_for(lambda: one_has_completed_and_one_trains(driver))
    family = driver.family()
    driver.process.send_signal(signal.SIGINT)
    assert driver.end() == 75, driver.output()
    assert psutil.wait_procs(family, timeout=20)[1] == []
    folder = driver.tuning().relative_to(driver.folder)
    assert f"scripts/tune.py resume={folder}" in driver.output()
    stopped = driver.records()
    assert {record["status"] for record in stopped.values()} == {"completed", "interrupted"}
    finish(driver, stopped)


def test_a_search_that_is_killed_goes_on_and_runs_nothing_twice(driver):
    driver.start(*SEARCH)
    driver.wait_for(lambda: one_has_completed_and_one_trains(driver))
    ours = driver.ours()
    assert len(ours) >= 3
    driver.process.kill()
    driver.end()
    # Two agents of Ray's own ask its dead server for a minute or two.
    assert psutil.wait_procs(ours, timeout=30)[1] == [], "no training outlives a script that is killed"
    finish(driver, driver.records())

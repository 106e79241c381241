# SPDX-License-Identifier: BSD-3-Clause
"""The faults of benchmarks/results/faults.md, injected into RLlib: real processes, real signals.

RLlib has an environment of its own, apart from this project's, which it does not need:

    uv venv --python 3.12 .venv-rllib
    VIRTUAL_ENV=.venv-rllib uv pip install 'ray[rllib]==2.60.0' torch psutil
    .venv-rllib/bin/python benchmarks/rllib_faults.py --out benchmarks/results/rllib_faults.md

`--fault NAME` picks some. Rows that `--rows` holds already are not measured again, so that a run that was cut off goes
on.

Faults hit benchmarks/rllib_training.py: PPO on the new API stack, CartPole, two env-runner processes with four
environments each, the learner in the driver, updates of 500 samples, and in a plain script a checkpoint after each
iteration that ends a second or more after the last one. Settings that a row does not name are RLlib's defaults. A fault
comes at a random moment, up to two seconds after the last one was overcome.

- Survived: training went on by itself. Iterations without samples, which RLlib counts, do not count here.
- Iterations lost: finished before the fault, and done again.
- Seconds to the next iteration's end count from the fault; an iteration that had begun may end undisturbed.
- Process back: from the kill until all new runners have their environments.
- Environments made anew: of the eight, after one fault, by the end of the iteration after the next.
- An iteration before / after: median seconds of the first three, and of the three after the last fault.
- Load: processes that wanted one of the cores at the end, this benchmark's and others'.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

SCRIPT = Path(__file__).with_name("rllib_training.py")
START_SECONDS = 240.0
PATIENCE_SECONDS = 200.0
"""A run that ends no iteration for so long after a fault counts as hung."""
SETTLE_SECONDS = 100.0
UNDISTURBED = 3
"""Iterations before the first fault, and after the last."""


class Training:
    """A training script in a session of its own, and what it writes into its folder."""

    def __init__(self, folder: Path, settings: dict[str, Any], tune: bool) -> None:
        """Start the script with these settings of RLlib."""
        self.folder = folder
        self._command = [sys.executable, str(SCRIPT), "--folder", str(folder), "--settings", json.dumps(settings)]
        self._command += ["--tune"] if tune else []
        self._below: set[psutil.Process] = set()
        self.start()

    def start(self) -> None:
        """Start the script, as a person would again after its death."""
        with (self.folder / "output").open("a", encoding="utf-8") as output:
            self.script = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "RAY_AUTH_MODE": "disabled", "HOME": str(self.folder), "OMP_NUM_THREADS": "1"},
            )

    def lines(self, name: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Return what was written to one of the files after a time."""
        path = self.folder / f"{name}.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["time"] > since]

    def iterations(self, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the iterations that learned something; RLlib also counts those for which no sample came."""
        return [line for line in self.lines("progress", since) if line["steps"] > 0]

    def wait(self, done: Callable[[], Any], seconds: float) -> bool:
        """Wait until something is true; return False where the script ended or the time is over before that."""
        deadline = time.monotonic() + seconds
        while not done():
            if self.script.poll() is not None or time.monotonic() > deadline:
                return bool(done())
            time.sleep(0.05)
        return True

    def runners(self) -> dict[int, int]:
        """Return the process of each env-runner by its number."""
        return {line["runner"]: line["pid"] for line in self.lines("runners")}

    def remember_children(self) -> None:
        """Note what runs below the script, so that it can be ended even when the script is gone."""
        if self.script.poll() is None:
            self._below.update(psutil.Process(self.script.pid).children(recursive=True))

    def close(self) -> None:
        """End the script and everything that it started."""
        self.remember_children()
        self.script.kill()
        self.script.wait()
        for process in self._below:
            if process.is_running():
                process.kill()
        psutil.wait_procs(list(self._below), timeout=10)


def kill_runner(training: Training) -> None:
    """SIGKILL for one of the env-runners."""
    os.kill(random.choice(list(training.runners().values())), signal.SIGKILL)


def kill_runners(training: Training) -> None:
    """SIGKILL for all env-runners at once."""
    for pid in training.runners().values():
        os.kill(pid, signal.SIGKILL)


def stop_runner(training: Training) -> None:
    """SIGSTOP for one of the env-runners: it hangs for good."""
    os.kill(training.runners()[1], signal.SIGSTOP)


def kill_driver(training: Training) -> None:
    """SIGKILL for the script, and what a person would do then."""
    training.remember_children()
    training.script.kill()
    training.script.wait()
    training.start()


def kill_trial(training: Training) -> None:
    """SIGKILL for the process that learns."""
    os.kill(training.lines("progress")[-1]["pid"], signal.SIGKILL)


def terminate(training: Training) -> None:
    """SIGTERM for the script."""
    training.script.terminate()


def ask(fault: str) -> Callable[[Training], None]:
    """Return what lets one of the environments fail, and waits until it does."""

    def inject(training: Training) -> None:
        path = training.folder / fault
        path.touch()
        training.wait(lambda: not path.exists(), PATIENCE_SECONDS)

    return inject


@dataclass(frozen=True)
class Case:
    """One fault with one choice of settings."""

    fault: str
    """What the table calls it."""
    inject: Callable[[Training], None]
    """Lets it happen."""
    times: int
    """How often at most; a run that did not survive is over."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of RLlib, by method of the algorithm's config; what is not named is its default."""
    tune: bool = False
    """Run as Tune's trial instead of in a plain script."""
    by_hand: bool = False
    """A person starts the script again."""
    replaced: int = 0
    """New env-runners to wait for after each fault."""


def tolerance(**settings: Any) -> dict[str, dict[str, Any]]:
    """Return settings of AlgorithmConfig.fault_tolerance()."""
    return {"fault_tolerance": settings}


ALONE = tolerance(restart_failed_env_runners=False)
SUB_ENVIRONMENTS = tolerance(restart_failed_sub_environments=True)
NO_DELAY = tolerance(delay_between_env_runner_restarts_s=0)
SHORT_TIMEOUTS = {**tolerance(env_runner_health_probe_timeout_s=5), "env_runners": {"sample_timeout_s": 5}}
SKIP_NAN = {"framework": {"torch_skip_nan_gradients": True}}

CASES = {
    "runner": Case("kill -9 of one of two env-runners", kill_runner, 5, replaced=1),
    "runner_alone": Case("kill -9 of one of two env-runners", kill_runner, 2, ALONE),
    "runners": Case("kill -9 of both env-runners at once", kill_runners, 3, replaced=2),
    "driver": Case("kill -9 of the script, which learns", kill_driver, 3, by_hand=True),
    "trial": Case("kill -9 of the trial's process, which learns", kill_trial, 3, tune=True),
    "raise": Case("one sub-environment raises", ask("raise"), 1),
    "raise_no_delay": Case("one sub-environment raises", ask("raise"), 3, NO_DELAY),
    "raise_restart": Case("one sub-environment raises", ask("raise"), 10, SUB_ENVIRONMENTS),
    "stop": Case("one of two env-runners hangs (SIGSTOP)", stop_runner, 1),
    "stop_short": Case("one of two env-runners hangs (SIGSTOP)", stop_runner, 1, SHORT_TIMEOUTS),
    "nan_reward": Case("one reward is NaN", ask("nan_reward"), 5),
    "nan_reward_skip": Case("one reward is NaN", ask("nan_reward"), 5, SKIP_NAN),
    "nan_state": Case("a state is NaN until its episode is over", ask("nan_state"), 3),
    "sigterm": Case("SIGTERM of the script", terminate, 1),
    "sigterm_tune": Case("SIGTERM of Tune's script", terminate, 1, tune=True),
}


@dataclass
class Row:
    """What was measured of one case."""

    fault: str
    settings: str
    times: int = 0
    survived: int = 0
    by_hand: bool = False
    lost: list[int] = field(default_factory=list)
    """Finished iterations that had to be done again, per fault."""
    seconds: list[float] = field(default_factory=list)
    """From each fault to the next iteration's end."""
    back: list[float] = field(default_factory=list)
    """From each fault until the killed runners were replaced."""
    made_anew: list[int] = field(default_factory=list)
    """Environments, of 8, that were made anew after each fault."""
    pace: list[float] = field(default_factory=list)
    """Median seconds of an iteration before the first fault and after the last."""
    finite: list[bool] = field(default_factory=list)
    """Whether the weights were finite at the end of each iteration after the first fault."""
    end: str = ""
    """How a run ended that did not survive."""
    load: float = 0.0
    """Processes that wanted a core, in the mean of the last minute of the case."""


def measure(case: Case) -> Row:
    """Run a case in a folder of its own."""
    row = Row(case.fault, describe(case), by_hand=case.by_hand)
    with tempfile.TemporaryDirectory(prefix="rllib", ignore_cleanup_errors=True) as folder:
        training = Training(Path(folder), case.settings, case.tune)
        try:
            if not training.wait(lambda: len(training.iterations()) > UNDISTURBED, START_SECONDS):
                raise RuntimeError(f"The training did not start:\n{(Path(folder) / 'output').read_text()}")
            row.pace.append(pace(training, 0.0))
            began = time.time()
            while row.times == row.survived < case.times:
                disturb(training, case, row)
            row.finite = [line["finite"] for line in training.lines("progress", began) if line["finite"] is not None]
            row.load = os.getloadavg()[0]
        finally:
            training.close()
    return row


def disturb(training: Training, case: Case, row: Row) -> None:
    """Inject the fault once and see what comes of it."""
    time.sleep(random.uniform(0.0, 2.0))
    last = training.iterations()[-1]["iteration"]
    began = time.time()
    case.inject(training)
    row.times += 1

    if not training.wait(lambda: training.iterations(began), PATIENCE_SECONDS):
        row.end = how_it_ended(training)
        return
    first = training.iterations(began)[0]
    row.seconds.append(first["time"] - began)
    row.lost.append(max(0, last + 1 - first["iteration"]))

    if case.replaced and training.wait(lambda: len(restarted(training, began)) >= case.replaced, SETTLE_SECONDS):
        row.back.append(max(restarted(training, began).values()) - began)
    settled = training.iterations()[-1]["time"]
    more = UNDISTURBED if row.times == case.times else 1
    training.wait(lambda: len(training.iterations(settled)) >= more, 2 * PATIENCE_SECONDS)
    if training.script.poll() is not None or not training.iterations(settled):
        row.end = how_it_ended(training)
        return
    row.survived += 1
    row.made_anew.append(len(training.lines("runners", began)))
    row.pace[1:] = [pace(training, settled)]


def restarted(training: Training, since: float) -> dict[int, float]:
    """Return when each env-runner that started after a time had its environments."""
    return {line["runner"]: line["time"] for line in training.lines("runners", since)}


def pace(training: Training, since: float) -> float:
    """Return the median seconds from one iteration's end to the next after a time."""
    times = [line["time"] for line in training.iterations() if line["time"] >= since]
    if len(times) < 2:
        return float("inf")
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(times))


def how_it_ended(training: Training) -> str:
    """Say what became of a run that did not survive."""
    last = training.lines("progress")[-1]["iteration"]
    checkpoints = training.lines("checkpoints")
    saved = f", checkpoint of iteration {checkpoints[-1]['iteration']} of {last}" if checkpoints else ""
    code = training.script.poll()
    silent = f"no iteration with samples for {PATIENCE_SECONDS:.0f} s or more"
    return (silent if code is None else f"exit code {code}") + saved


def describe(case: Case) -> str:
    """Name the settings that are not RLlib's defaults."""
    named = [f"`{name}={value}`" for section in case.settings.values() for name, value in section.items()]
    return ", ".join((["Tune, `max_failures=-1`"] if case.tune else []) + named) or "defaults"


def spread(values: list[float]) -> str:
    """Return the median and the range."""
    if not values:
        return ""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def as_markdown(row: Row) -> str:
    """Return a row of the table."""
    survived = f"{row.survived}, by hand" if row.by_hand else f"{row.survived}"
    weights = "" if not row.finite else "finite" if all(row.finite) else f"not finite in {row.finite.count(False)}"
    weights += f" of {len(row.finite)}" if "not" in weights else ""
    lost = spread([float(lost) for lost in row.lost])
    pace = " / ".join(f"{seconds:.1f}" for seconds in row.pace)
    anew = " to ".join(str(number) for number in sorted({*row.made_anew}))
    cells = [row.fault, row.settings, str(row.times), survived, lost, spread(row.seconds), spread(row.back), anew, pace]
    return "| " + " | ".join([*cells, weights, row.end, f"{row.load:.0f}"]) + " |"


def report(rows: list[Row]) -> str:
    """Return the page of results."""
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        model = next((line.split(":")[1].strip() for line in cpus if "model name" in line), platform.machine())
    packages = ", ".join(f"{name} {version(name)}" for name in ("ray", "torch", "gymnasium", "numpy"))
    explained = str(__doc__).split("\n\n", 1)[1].strip()
    head = (
        "fault | settings | times | survived | iterations lost | seconds to the next iteration's end | process back [s]"
        " | environments made anew | an iteration before / after [s] | weights after | end | load"
    )
    table = [f"| {head} |", "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|---:|", *map(as_markdown, rows)]
    machine = f"{model}, {os.cpu_count()} cores; python {platform.python_version()}, {packages}."
    return "\n\n".join(["# The same faults in RLlib", machine, explained, "\n".join(table)]) + "\n"


def main() -> None:
    """Measure the cases that are asked for, and write all rows there are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rows", type=Path, help="file of rows that were measured, read and added to")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended, too
    rows: dict[str, Row] = {}
    if args.rows and args.rows.exists():
        rows = {name: Row(**row) for name, row in json.loads(args.rows.read_text(encoding="utf-8")).items()}
    for name in [name for name in args.fault if name not in rows]:
        rows[name] = measure(CASES[name])
        print(name, as_markdown(rows[name]), flush=True)
        if args.rows:
            args.rows.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}), encoding="utf-8")

    if args.out:
        args.out.write_text(report([rows[name] for name in CASES if name in rows]), encoding="utf-8")


if __name__ == "__main__":
    main()

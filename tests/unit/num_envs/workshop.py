# SPDX-License-Identifier: BSD-3-Clause
"""Runs `fit` with children made of source code."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from isaaclab_pc.num_envs.fit import FitResult, fit
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.size_trials import RetryPolicy
from isaaclab_pc.num_envs.trial import Overrides, Trial

MIB = 1 << 20
KEY = {"task": "reach", "runner": "rsl_rl"}
"""Key that the callers of `fit` give."""


def never_retry(trial: Trial, overrides: Overrides) -> Overrides | None:
    return None


@dataclass
class Workshop:
    """Runs `fit` with a child made from source code, in folders of its own."""

    folder: Path
    trials: list[Trial] = field(default_factory=list)
    retry: RetryPolicy = never_retry
    first_start: float = 0.0
    """How long the first child takes until it trains, by a clock of which nothing else turns the hands [s]."""
    each_trial: float = 0.0
    """How long each child takes from there on, by the same clock [s]."""

    def fit(
        self, code: str, key: dict[str, str] = KEY, processes: int = 1, reserve: int = 0, **settings: object
    ) -> FitResult:
        script = f"""
import json, os, sys, time
n, path, overrides = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
def fits(fps):
    json.dump({{"num_envs": n, "outcome": "fits", "frames_per_second": fps}}, open(path + ".tmp", "w"))
    os.replace(path + ".tmp", path)
{code}
"""

        now = 0.0

        def command(num_envs: int, result_path: Path, overrides: Overrides) -> list[str]:
            nonlocal now
            if not self.trials:
                now += self.first_start
            arguments = [str(num_envs), str(result_path), json.dumps(overrides)]
            return [sys.executable, "-I", "-S", "-c", script, *arguments]

        def on_trial(trial: Trial) -> None:
            nonlocal now
            now += self.each_trial
            self.trials.append(trial)

        self.trials = []
        given = SearchSettings(**settings)  # pyright: ignore[reportArgumentType]
        more = {"retry": self.retry, "processes": processes, "reserve": reserve}
        return fit(command, given, key, on_trial, clock=lambda: now, **more)

    @property
    def tried(self) -> list[int]:
        return [trial.num_envs for trial in self.trials]

    @property
    def left_over(self) -> list[Path]:
        return list((self.folder / "tmp").iterdir())


SATURATED = "fits({32: 300, 64: 340, 128: 352, 256: 350}[n])"
MEMORY_HUNGRY = "block = bytearray(n * 2**20 // 4)\nblock[::4096] = b'x' * len(block[::4096])\nfits(n); time.sleep(0.2)"

# SPDX-License-Identifier: BSD-3-Clause
"""The real package, offline: what a run leaves for it, read back."""

import os
import re
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.workers.metric_log import MetricLog, open_metric_log


def test_tensorboard_needs_nothing_of_it(run):
    with open_metric_log(compose([]), RunRecord.load(run), pytest.fail) as log:
        log.iteration(1, {"mean_reward": 1.0})
    assert not (run / "wandb").exists()


def test_a_tracker_that_fails_is_said_once_and_the_training_goes_on():
    warnings = []
    calls = []

    def fail(values, step):
        calls.append(step)
        raise OSError("ENOSPC")

    log = MetricLog(fail, warnings.append)
    log.iteration(1, {"mean_reward": 1.0})
    log.iteration(2, {"mean_reward": 1.0})
    assert calls == [1]
    (warning,) = warnings
    assert "ENOSPC" in warning


def test_what_is_not_finite_is_not_reported():
    seen = []
    log = MetricLog(lambda values, step: seen.append((step, values)), pytest.fail)
    log.iteration(3, {"mean_reward": float("nan"), "Perf/env_fps": 1.0, "loss/value": 2.0, "success_rate": 0.5})
    log.evaluation(3, SimpleNamespace(success_rate=0.25, mean_return=None))  # pyright: ignore[reportArgumentType]
    assert seen == [(3, {"Perf/env_fps": 1.0, "Loss/value": 2.0}), (3, {"Evaluation/success_rate": 0.25})]


def test_a_run_of_weights_and_biases_lies_in_the_runs_folder_under_its_name(run, tmp_path):
    pytest.importorskip("wandb")
    compose(["logger=wandb", "num_envs=4"]).save(run / "config.yaml")
    code = """
        import sys
        from pathlib import Path
        from isaaclab_pc.run.record import RunRecord
        from isaaclab_pc.settings import RunSettings
        from isaaclab_pc.workers.metric_log import open_metric_log
        run = Path(sys.argv[1])
        with open_metric_log(RunSettings.load(run / "config.yaml"), RunRecord.load(run), sys.exit) as log:
            for number in (1, 2):
                log.iteration(number, {"mean_reward": 2.5 * number, "Guard/action": 0.0})
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    environment["HOME"] = str(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(code), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr

    (file,) = run.glob("wandb/offline-run-*/*.wandb")
    assert _values("_step", file) == ["1", "2"]
    assert _values("Train/mean_reward", file) == ["2.5", "5"]
    assert _values("Guard/action", file) == ["0"]


def _values(key, file):
    """Return the values of a key, each once; in protobuf, field 16 and the text's length stand between them."""
    found = re.findall(re.escape(key.encode()) + rb"\x82\x01(.)([\d.]+)", file.read_bytes(), re.DOTALL)
    # What follows may be a digit, too.
    return list(dict.fromkeys(value[: ord(length)].decode() for length, value in found))

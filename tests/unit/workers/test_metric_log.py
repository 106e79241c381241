# SPDX-License-Identifier: BSD-3-Clause
"""The real package, offline: what a run leaves for it, read back."""

import json
import os
import struct
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run import platform
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.workers.metric_log import MetricLog, open_metric_log


def test_tensorboard_needs_nothing_of_it(run):
    settings = compose([])
    with open_metric_log(settings, RunRecord.load(run), pytest.fail) as log:
        log.iteration(1, {"mean_reward": 1.0})
    assert not (run / "wandb").exists()


def test_a_tracker_that_fails_is_said_once_and_the_training_goes_on():
    warnings = []
    calls = []

    def fail(values, step):
        calls.append(step)
        raise OSError("no space left")

    log = MetricLog(fail, warnings.append)
    log.iteration(1, {"mean_reward": 1.0})
    log.iteration(2, {"mean_reward": 1.0})
    assert calls == [1]
    assert len(warnings) == 1
    assert "no space left" in warnings[0]


def test_what_is_not_finite_is_not_reported():
    seen = []
    log = MetricLog(lambda values, step: seen.append((step, values)), pytest.fail)
    log.iteration(3, {"mean_reward": float("nan"), "Perf/env_fps": 1.0, "loss/value": 2.0, "success_rate": 0.5})
    log.evaluation(3, SimpleNamespace(success_rate=0.25, mean_return=None))  # pyright: ignore[reportArgumentType]
    assert seen == [(3, {"Perf/env_fps": 1.0, "Loss/value": 2.0}), (3, {"Evaluation/success_rate": 0.25})]


def test_a_logger_that_is_not_installed_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr(platform, "is_installed", lambda name: False)
    with pytest.raises(ConfigError, match=r"pip install 'isaaclab_pc\[wandb\]'"):
        platform.check_logger(compose(["logger=wandb"]))
    platform.check_logger(compose([]))


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

    (folder,) = run.glob("wandb/offline-run-*")
    rows = [row for row in _history(next(folder.glob("*.wandb"))) if "Train/mean_reward" in row]
    assert [(row["_step"], row["Train/mean_reward"], row["Guard/action"]) for row in rows] == [(1, 2.5, 0), (2, 5.0, 0)]


def _history(path):
    """Yield what was logged, from a file of W&B."""
    from wandb.proto import wandb_internal_pb2

    for data in _records(path.read_bytes()):
        entry = wandb_internal_pb2.Record()  # pyright: ignore[reportAttributeAccessIssue]
        entry.ParseFromString(data)
        if entry.WhichOneof("record_type") == "history":
            yield {item.key or item.nested_key[0]: json.loads(item.value_json) for item in entry.history.item}


def _records(data, block=1 << 15, header=7):
    """Yield the records of a log of LevelDB's kind: checksum, length and kind before each part, none across blocks."""
    position = header
    record = b""
    while position + header <= len(data):
        left = block - position % block
        if left < header:
            position += left
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        record += data[position + header : position + header + length]
        position += header + length
        # Whole, or the last part.
        if kind in (1, 4):
            yield record
            record = b""

# SPDX-License-Identifier: BSD-3-Clause
"""Training on real physics whose process is killed, runs out of memory or hangs, and goes on by itself."""

import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.learners.common.checkpoint_file import acting_weights, check_intact, load_checkpoint
from tests.sim.training import SMALL, TRAIN, Training, processes_of

pytestmark = [pytest.mark.sim, pytest.mark.physx]


def test_killed_it_goes_on_by_itself_and_a_scheduler_can_stop_it(tmp_path: Path) -> None:
    with Training(tmp_path, "max_iterations=100000") as training:
        killed = training.wait_for_checkpoint()
        killed.kill()

        training.wait_for_event("recovered")
        training.script.send_signal(signal.SIGUSR1)
        assert training.script.wait(timeout=60) == 75, training.output

        record = training.record
        (restart,) = record["restarts"]
        assert (restart["cause"], restart["from_iteration"] > 0) == ("killed", True)
        assert training.events("recovered")[0]["iteration"] > restart["from_iteration"]
        assert record["status"] == "interrupted"
        assert record["checkpoints"]["latest"]["iteration"] == record["completed_iterations"]
        assert record["completed_iterations"] > restart["from_iteration"]
        assert processes_of(training.run) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "ranks"),
    [*((runner, ["gpus=2"]) for runner in RUNNERS), ("rsl_rl", ["cluster=ray", "workers=2"])],
    ids=[*RUNNERS, "ray"],
)
def test_two_ranks_go_on_together_after_one_was_killed_and_stop_together(
    tmp_path: Path, runner: str, ranks: list[str]
) -> None:
    with Training(tmp_path, *ranks, "max_iterations=100000", runner=runner, samples_per_update=256) as training:
        first = training.wait_for(3, seconds=300)
        (second,) = [process for process in psutil.process_iter() if _is_rank(process, tmp_path, "1")]
        second.kill()

        training.wait_for(6, after=first.pid, seconds=300)
        training.script.send_signal(signal.SIGTERM)
        assert training.script.wait(timeout=120) == 75, training.output

        record = training.record
        (restart,) = record["restarts"]
        assert (restart["cause"], restart["from_iteration"] > 0) == ("killed", True)
        assert record["status"] == "interrupted"
        assert record["checkpoints"]["latest"]["iteration"] == record["completed_iterations"] >= 6
        assert record["env_steps"] == 256 * record["completed_iterations"]
        assert processes_of(training.run) == []


@pytest.mark.slow
def test_two_nodes_go_on_together_after_the_second_lost_its_rank(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        nodes = ["nodes=2", f"rendezvous=localhost:{free.getsockname()[1]}", "max_iterations=100000"]
    second_output = (tmp_path / "second").open("w")
    second = subprocess.Popen(
        [sys.executable, str(TRAIN), *SMALL, *nodes, "node_rank=1"],
        cwd=tmp_path,
        stdout=second_output,
        stderr=subprocess.STDOUT,
    )
    try:
        with Training(tmp_path, *nodes, "node_rank=0", samples_per_update=256) as training:
            first = training.wait_for(3, seconds=300)
            ranks = [process for process in psutil.process_iter() if _is_rank(process, tmp_path, "1")]
            assert len(ranks) == 1
            ranks[0].kill()

            training.wait_for(6, after=first.pid, seconds=300)
            training.script.send_signal(signal.SIGTERM)
            assert training.script.wait(timeout=120) == 75, training.output
            assert training.record["status"] == "interrupted"
            assert len(training.record["restarts"]) >= 1
            assert processes_of(training.run) == []
        second.send_signal(signal.SIGTERM)
        assert second.wait(timeout=120) == 75, (tmp_path / "second").read_text()
    finally:
        second.kill()
        second.wait()
        second_output.close()


def _is_rank(process: psutil.Process, folder: Path, rank: str) -> bool:
    """Whether a process trains as a rank of a run in a folder."""
    try:
        trains = "isaaclab_pc.workers" in process.cmdline() and "--ranks=1" not in process.cmdline()
        return trains and process.environ().get("RANK") == rank and process.cwd() == str(folder)
    except psutil.Error:
        return False


# Python runs this at the start of every process. One that trains asks for a GiB more when it is told to.
GROWS = """\
import pathlib, signal

def grow(*_):
    bytearray(1 << 30)

if "isaaclab_pc.workers" in pathlib.Path("/proc/self/cmdline").read_text():
    signal.signal(signal.SIGRTMIN, grow)
"""


@pytest.mark.slow
def test_hung_and_without_memory_it_goes_on_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(GROWS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with Training(tmp_path, "max_iterations=40", "supervise.stall_timeout=20") as training:
        hung = training.wait_for(8)
        hung.suspend()

        grows = training.wait_for(12, after=hung.pid, seconds=240)
        limit_memory(grows.pid, grows.memory_info().vms)
        grows.send_signal(signal.SIGRTMIN)

        assert training.script.wait(timeout=300) == 0, training.output
        record = training.record
        assert (record["status"], record["completed_iterations"]) == ("completed", 40), training.output
        assert [restart["cause"] for restart in record["restarts"]] == ["hung", "out of memory"], training.output
        assert record["num_envs"] == 8
        assert "num_envs: 8" in (training.run / "config.yaml").read_text(encoding="utf-8")
        assert all(restart["from_iteration"] > 0 for restart in record["restarts"])
        assert processes_of(training.run) == []


def limit_memory(pid: int, size: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_under_a_memory_limit_in_which_nothing_starts_it_ends_and_goes_on_without(tmp_path: Path) -> None:
    with Training(tmp_path, "max_iterations=100000", "supervise.max_restarts=2") as training:
        worker = training.wait_for_checkpoint()
        # Those that follow inherit it.
        limit_memory(training.script.pid, 2 << 30)
        worker.kill()

        assert training.script.wait(timeout=300) == 1, training.output
        record = training.record
        assert (record["status"], record["restarts"][0]["cause"]) == ("failed", "killed")
        latest = record["checkpoints"]["latest"]
        check_intact(training.run / latest["path"])
        folder = training.run.relative_to(tmp_path)
        assert training.output.endswith(f"resume={folder} goes on after iteration {latest['iteration']}\n")
        assert processes_of(training.run) == []

    with Training.resumed(tmp_path, f"max_iterations={latest['iteration'] + 3}") as training:
        assert training.script.wait(timeout=120) == 0, training.output
        assert training.record["status"] == "completed"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_twenty_times_it_learns_as_if_nothing_had_been(tmp_path: Path) -> None:
    """Reach from its expert, as in the README, with a kill -9 at random moments."""
    settings = ("algorithm=distill", "num_envs=64", "env.episode_length_s=4", "supervise.max_restarts=100")
    random.seed(7)
    with Training(tmp_path, *settings, "eval.episodes=128", samples_per_update=4096) as training:
        worker = training.wait_for(1)
        for number in range(20):
            time.sleep(random.uniform(0.0, 20.0))
            if training.script.poll() is not None or training.beat().get("phase") == "close":
                break
            worker.kill()
            worker = training.wait_for(0, after=worker.pid)
            print(f"kill {number + 1}: after iteration {training.events('died')[-1]['iteration']}", flush=True)

        assert training.script.wait(timeout=900) == 0, training.output
        record = training.record
        kills = len(record["restarts"])
        assert kills >= 10, "the run was over too soon"
        assert record["completed_iterations"] == record["max_iterations"]
        # Undisturbed it has 100 % of 128 episodes.
        assert record["success"] >= 0.95
        # An interval of a second holds one iteration.
        assert max(event["lost_iterations"] for event in training.events("restart")) <= 2
        assert not list((training.run / "checkpoints").glob(".*.tmp"))


def weights(path: Path) -> dict[str, torch.Tensor]:
    state, _ = load_checkpoint(path, "cpu")
    networks = acting_weights(state["algorithm"])
    return {f"{name}.{key}": value for name, network in networks.items() for key, value in network.items()}


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_run_that_was_killed_ends_with_the_weights_of_one_that_was_not(tmp_path: Path, runner: str) -> None:
    """Both reset all environments after every iteration: one evaluates its checkpoint, the other is restarted, too."""
    settings = (
        *("max_iterations=6", "supervise.checkpoint_interval=0"),
        *("eval.best_share=0.9", "eval.best_episodes=1", "env.episode_length_s=0.25"),
    )
    ends = []
    for fate in ("undisturbed", "killed"):
        (tmp_path / fate).mkdir()
        with Training(tmp_path / fate, *settings, runner=runner) as training:
            worker = training.wait_for(2)
            if fate == "killed":
                worker.kill()
            assert training.script.wait(timeout=240) == 0, training.output
            assert len(training.record["restarts"]) == (fate == "killed")
            resets = {point["iteration"] for point in training.record["evaluations"]}
            resets |= {restart["from_iteration"] for restart in training.record["restarts"]}
            assert resets >= {1, 2, 3, 4, 5}
            ends.append(weights(training.run / "checkpoints" / "model_6.pt"))

    undisturbed, killed = ends
    assert undisturbed.keys() == killed.keys()
    for key, value in undisturbed.items():
        assert torch.equal(value, killed[key]), f"{key} differs by {(value.double() - killed[key]).abs().max():.2g}"

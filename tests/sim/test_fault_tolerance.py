# SPDX-License-Identifier: BSD-3-Clause
"""Training on real physics whose process is killed, hangs, leaks or runs out of memory, and goes on by itself."""

import random
import resource
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest
import torch

from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.learners.common.checkpoint_file import acting_weights, check_intact, load_checkpoint
from tests.sim.training import Training, begin_every_process_with, processes_of

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]


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
        rank_of(tmp_path, "1").kill()

        training.wait_for(6, after=first.pid, seconds=300)
        record = training.stop()
        (restart,) = record["restarts"]
        assert (restart["cause"], restart["from_iteration"] > 0) == ("killed", True)
        assert record["env_steps"] == 256 * record["completed_iterations"] >= 256 * 6


def test_two_nodes_go_on_together_after_the_second_lost_its_rank(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        nodes = ["nodes=2", f"rendezvous=localhost:{free.getsockname()[1]}", "max_iterations=100000"]
    with (
        Training(tmp_path, *nodes, "node_rank=1", samples_per_update=256, log="second") as second,
        Training(tmp_path, *nodes, "node_rank=0", samples_per_update=256) as training,
    ):
        first = training.wait_for(3, seconds=300)
        rank_of(tmp_path, "1").kill()

        training.wait_for(6, after=first.pid, seconds=300)
        assert len(training.stop()["restarts"]) >= 1
        second.script.send_signal(signal.SIGTERM)
        assert second.script.wait(timeout=120) == 75, second.output


def rank_of(folder: Path, rank: str) -> psutil.Process:
    """Return the process that trains as a rank of a run in a folder."""

    def is_rank(process: psutil.Process) -> bool:
        try:
            trains = "isaaclab_pc.workers" in process.cmdline() and "--ranks=1" not in process.cmdline()
            return trains and process.environ().get("RANK") == rank and process.cwd() == str(folder)
        except psutil.Error:
            return False

    (process,) = [process for process in psutil.process_iter() if is_rank(process)]
    return process


# A process that trains asks for a GiB more when it is told to.
GROWS = """\
import pathlib, signal

def grow(*_):
    bytearray(1 << 30)

if "isaaclab_pc.workers" in pathlib.Path("/proc/self/cmdline").read_text():
    signal.signal(signal.SIGRTMIN, grow)
"""


def test_hung_and_without_memory_it_goes_on_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_every_process_with(GROWS, tmp_path, monkeypatch)
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


# The first process that trains leaks, on a machine that looks small to it.
LEAKS = """\
import pathlib, sys, threading, time

LIMIT = 6 << 30
leaked = []

def leak():
    while "isaaclab_pc.supervise.heartbeat" not in sys.modules:
        time.sleep(0.1)
    time.sleep(1.0)
    from isaaclab_pc.supervise import heartbeat
    import psutil

    process = psutil.Process()
    heartbeat.free_host_memory = lambda: max(LIMIT - process.memory_info().rss, 0)
    while process.memory_info().rss < 0.9 * LIMIT:
        leaked.append(b"x" * (4 << 20))
        time.sleep(0.1)

if "isaaclab_pc.workers" in pathlib.Path("/proc/self/cmdline").read_text() and not pathlib.Path("leaked").exists():
    pathlib.Path("leaked").touch()
    threading.Thread(target=leak, daemon=True).start()
"""


def test_a_process_that_leaks_is_replaced_in_good_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_every_process_with(LEAKS, tmp_path, monkeypatch)
    with Training(tmp_path, "max_iterations=100000") as training:
        first = training.wait_for(1)
        training.wait_for(30, after=first.pid, seconds=240)
        assert not first.is_running()
        (restart,) = training.record["restarts"]
        assert restart["cause"] == "memory leak"
        assert "limit of 6" in restart["detail"]
        assert restart["from_iteration"] == restart["iteration"] >= 25, "it wrote a checkpoint first"

        training.stop()


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
        assert f"resume={training.run.relative_to(tmp_path)} " in training.output
        assert processes_of(training.run) == []

    with Training.resumed(tmp_path, f"max_iterations={latest['iteration'] + 3}") as training:
        assert training.script.wait(timeout=120) == 0, training.output
        assert training.record["status"] == "completed"


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

# SPDX-License-Identifier: BSD-3-Clause
"""Ray Train as the launcher of ranks: real Ray, real processes and signals; only what the ranks do is made up."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 300
"""Ray takes a minute to start on two busy cores."""

RANK = """
import os, signal, sys, time
from pathlib import Path

rank = os.environ["RANK"]
folder = Path(sys.argv[1])


def on_signal(number, frame):
    (folder / f"signal_{rank}").write_text(str(number))
    (folder / "stop").touch()


signal.signal(signal.SIGUSR1, on_signal)
print(f"rank {rank} of {os.environ['ISAACLAB_PC_RANKS']} begins", flush=True)
(folder / f"ready_{rank}").write_text(str(os.getpid()))
until = time.monotonic() + 300
while not (folder / "stop").exists() and time.monotonic() < until:
    time.sleep(0.02)
# As a run that stops: the first rank tells how; one of another node has another code than one of the first.
if rank == "0":
    time.sleep(1.0)
sys.exit(128 + signal.SIGUSR1 if (folder / "signal_0").exists() and rank == "0" else 75 if rank == "1" else 0)
"""


class Launcher:
    """The launcher of ranks that wait in a folder until there is a file ``stop``."""

    def __init__(self, folder: Path, workers: int, at_least: int, address: str | None = None) -> None:
        self.folder = folder
        command = [sys.executable, "-P", "-m", "isaaclab_pc.cluster.ray_train", f"--workers={workers}"]
        arguments = [f"--at-least={at_least}", f"--log={folder / 'worker.log'}", "--", "-c", RANK, str(folder)]
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        if address is not None:
            environment["RAY_ADDRESS"] = address
        self._output = (folder / "output").open("w", encoding="utf-8")
        self.process = subprocess.Popen(
            [*command, *arguments], cwd=folder, env=environment, stdout=self._output, stderr=subprocess.STDOUT
        )

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._output.close()

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(encoding="utf-8")

    def wait_for_ranks(self, number: int) -> None:
        self.wait_until(lambda: len(list(self.folder.glob("ready_*"))) == number)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < until, self.output
            assert self.process.poll() is None, self.output
            time.sleep(0.1)

    def pid(self, rank: int) -> int:
        return int((self.folder / f"ready_{rank}").read_text())


def is_gone(pid: int, seconds: float = 30.0) -> bool:
    """Whether a process ends within some time."""
    until = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def two_machines() -> Iterator[tuple[str, Callable[[], None]]]:
    """Two machines of one core, really processes: the first one's address, and what takes the other one away."""
    variables = dict(os.environ)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        # Of two machines with one address, a launcher would take either as its own.
        second = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.2")
        cluster.wait_for_nodes()
        address = cluster.address
        assert address is not None
        yield address, lambda: cluster.remove_node(second, allow_graceful=False)
    finally:
        cluster.shutdown()
        signal.signal(signal.SIGTERM, on_sigterm)
        os.environ.clear()
        os.environ.update(variables)


def test_ranks_know_themselves_and_a_signal_goes_to_the_first(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=2, at_least=2) as launcher:
        launcher.wait_for_ranks(2)
        launcher.process.send_signal(signal.SIGUSR1)
        assert launcher.process.wait(SECONDS) == 128 + signal.SIGUSR1, launcher.output
        assert "rank 0 of 2 begins" in launcher.output
        assert not (tmp_path / "signal_1").exists()


def test_a_rank_that_is_killed_ends_the_group_with_its_signal(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=2, at_least=2) as launcher:
        launcher.wait_for_ranks(2)
        os.kill(launcher.pid(1), signal.SIGKILL)
        assert launcher.process.wait(SECONDS) == 128 + signal.SIGKILL, launcher.output
        assert is_gone(launcher.pid(0))


def test_ranks_do_not_outlive_their_launcher(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=2, at_least=2) as launcher:
        launcher.wait_for_ranks(2)
        launcher.process.kill()
        assert is_gone(launcher.pid(0))
        assert is_gone(launcher.pid(1))


def test_a_machine_that_is_lost_ends_the_group_and_the_next_one_begins_with_what_is_left(tmp_path: Path) -> None:
    with two_machines() as (address, take_away):
        with Launcher(tmp_path, workers=2, at_least=2, address=address) as launcher:
            launcher.wait_for_ranks(2)
            take_away()
            assert launcher.process.wait(SECONDS) == 1, launcher.output
            assert "a Ray worker was lost" in launcher.output
            assert is_gone(launcher.pid(0))
            assert is_gone(launcher.pid(1))

        for path in tmp_path.glob("ready_*"):
            path.unlink()
        with Launcher(tmp_path, workers=2, at_least=1, address=address) as launcher:
            launcher.wait_for_ranks(1)
            launcher.wait_until(lambda: "rank 0 of 1 begins" in launcher.output)
            assert "going on with 1 of 2 workers" in launcher.output
            (tmp_path / "stop").touch()
            assert launcher.process.wait(SECONDS) == 0, launcher.output


def test_a_run_that_waits_for_its_place_ends_at_once_when_it_is_told_to(tmp_path: Path) -> None:
    holds = tmp_path / "holds"
    waits = tmp_path / "waits"
    holds.mkdir()
    waits.mkdir()
    with two_machines() as (address, _), Launcher(holds, workers=2, at_least=2, address=address) as first:
        first.wait_for_ranks(2)
        with Launcher(waits, workers=1, at_least=1, address=address) as second:
            second.wait_until(lambda: "waiting: others use the Ray cluster" in second.output)
            time.sleep(5)
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(30) == 128 + signal.SIGTERM, second.output
        (holds / "stop").touch()
        assert first.process.wait(SECONDS) == 0, first.output


def test_more_workers_than_the_cluster_has_room_for_are_refused(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=1000, at_least=1000) as launcher:
        assert launcher.process.wait(SECONDS) == 2
        assert "error: workers=1000: the Ray cluster has room for" in launcher.output


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=1, at_least=1, address="localhost:1") as launcher:
        assert launcher.process.wait(SECONDS) == 2
        assert "error: no Ray cluster answers at localhost:1: " in launcher.output

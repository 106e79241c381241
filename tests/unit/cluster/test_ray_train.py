# SPDX-License-Identifier: BSD-3-Clause
"""Ray Train as the launcher of ranks: real Ray, real processes and signals; only what the ranks do is made up."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isaaclab_pc.supervise.deaths import LOST_WORKER
from tests.unit.cluster import waiting_rank
from tests.unit.cluster.waiting_rank import RANK_BEGINS, pid_of
from tests.waiting import is_gone, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 300
"""Ray takes a minute to start on two busy cores."""


class Launcher:
    """The launcher of ranks that wait in a folder until there is a file ``stop``."""

    def __init__(
        self, folder: Path, workers: int, at_least: int, address: str | None = None, *, is_read: bool = True
    ) -> None:
        self.folder = folder
        command = [
            *(sys.executable, "-P", "-m", "isaaclab_pc.cluster.ray_train"),
            *(f"--workers={workers}", f"--at-least={at_least}", f"--log={folder / 'worker.log'}", "--"),
            *(waiting_rank.__file__, str(folder), "75"),
        ]
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        if address is not None:
            environment["RAY_ADDRESS"] = address
        self._output = (folder / "output").open("w", encoding="utf-8")
        stdout = self._output.fileno()
        if not is_read:
            read, stdout = os.pipe()
            os.close(read)
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=stdout, stderr=self._output)
        if not is_read:
            os.close(stdout)

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
        wait_until(condition, SECONDS, alive=self.process, said=lambda: self.output)


@contextlib.contextmanager
def two_machines() -> Iterator[tuple[str, Callable[[], None]]]:
    """Two machines of one core, really processes: the first one's address, and what takes the other one away."""
    variables = dict(os.environ)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.2")
        # The launcher belongs to the machine of which Ray has noted the address here: not to the one that began last.
        head = cluster.head_node
        assert head is not None
        noted = Path(head.get_session_dir_path()) / "node_ip_address.json"
        noted.write_text(json.dumps({"node_ip_address": head.node_ip_address}), encoding="utf-8")
        cluster.wait_for_nodes()
        address = cluster.address
        assert address is not None

        def take_away() -> None:
            cluster.remove_node(second, allow_graceful=False)
            # Until the cluster has noticed, a new run may be given a place on the machine that is gone.
            cluster.wait_for_nodes(SECONDS)

        yield address, take_away
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
        assert RANK_BEGINS.format(0, 2) in launcher.output
        assert not (tmp_path / "signal_1").exists()


def test_a_pipe_that_closes_costs_what_is_written_and_no_more(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=1, at_least=1, is_read=False) as launcher:
        launcher.wait_for_ranks(1)
        (tmp_path / "stop").touch()
        assert launcher.process.wait(SECONDS) == 0


def test_a_rank_that_is_killed_ends_the_group_with_its_signal(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=2, at_least=2) as launcher:
        launcher.wait_for_ranks(2)
        os.kill(pid_of(tmp_path, 1), signal.SIGKILL)
        assert launcher.process.wait(SECONDS) == 128 + signal.SIGKILL, launcher.output
        wait_until(lambda: is_gone(pid_of(tmp_path, 0)))


def test_ranks_do_not_outlive_their_launcher(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=2, at_least=2) as launcher:
        launcher.wait_for_ranks(2)
        launcher.process.kill()
        wait_until(lambda: is_gone(pid_of(tmp_path, 0)))
        wait_until(lambda: is_gone(pid_of(tmp_path, 1)))


def test_a_machine_that_is_lost_ends_the_group_and_the_next_one_begins_with_what_is_left(tmp_path: Path) -> None:
    with two_machines() as (address, take_away):
        with Launcher(tmp_path, workers=2, at_least=2, address=address) as launcher:
            launcher.wait_for_ranks(2)
            take_away()
            assert launcher.process.wait(SECONDS) == 1, launcher.output
            assert LOST_WORKER in launcher.output
            wait_until(lambda: is_gone(pid_of(tmp_path, 0)))
            wait_until(lambda: is_gone(pid_of(tmp_path, 1)))

        for path in (*tmp_path.glob("ready_*"), tmp_path / "stop"):
            path.unlink(missing_ok=True)
        with Launcher(tmp_path, workers=2, at_least=1, address=address) as launcher:
            launcher.wait_for_ranks(1)
            launcher.wait_until(lambda: RANK_BEGINS.format(0, 1) in launcher.output)
            assert "1 of 2" in launcher.output
            (tmp_path / "stop").touch()
            assert launcher.process.wait(SECONDS) == 0, launcher.output


def test_a_run_that_waits_for_its_place_ends_at_once_when_it_is_told_to(tmp_path: Path) -> None:
    holds, waits = tmp_path / "holds", tmp_path / "waits"
    for folder in (holds, waits):
        folder.mkdir()
    with two_machines() as (address, _), Launcher(holds, workers=2, at_least=2, address=address) as first:
        first.wait_for_ranks(2)
        with Launcher(waits, workers=1, at_least=1, address=address) as second:
            second.wait_until(lambda: "waiting: others use the Ray cluster" in second.output)
            time.sleep(5)
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(30) == 128 + signal.SIGTERM, second.output
        (holds / "stop").touch()
        assert first.process.wait(SECONDS) == 0, first.output


def test_a_signal_before_the_ranks_begin_is_no_error() -> None:
    program = (
        "import os, signal, time; from isaaclab_pc.cluster.ray_cluster import ray_cluster\n"
        "with ray_cluster(None, {'num_cpus': 1}): os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], timeout=SECONDS, capture_output=True)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr.decode()


def test_more_workers_than_the_cluster_has_room_for_are_refused(tmp_path: Path) -> None:
    with Launcher(tmp_path, workers=1000, at_least=1000) as launcher:
        assert launcher.process.wait(SECONDS) == 2
        assert "error: workers=1000: " in launcher.output

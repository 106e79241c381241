# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes on one machine, with real launchers and processes."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cluster import nodes
from isaaclab_pc.cluster.nodes import UNANSWERED, Place, find_place, run_follower_node
from isaaclab_pc.cluster.ranks import ranks_command
from isaaclab_pc.cluster.start import start_command
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.supervise import watch
from isaaclab_pc.supervise.deaths import DeathCause
from isaaclab_pc.supervise.supervisor import supervise

ROOT = Path(__file__).parents[3]

RANK = """
import os, sys
from pathlib import Path

folder, codes = Path(sys.argv[1]), [int(code) for code in sys.argv[2].split(",")]
rank = os.environ["RANK"]
before = len(list(folder.glob(f"started_{rank}_*")))
(folder / f"started_{rank}_{before}").write_text(f"{os.environ['GROUP_RANK']} of {os.environ['WORLD_SIZE']}")
sys.exit(codes[before] if before < len(codes) else 0)
"""


@pytest.fixture
def endpoint() -> str:
    """Where nobody listens yet."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


@pytest.fixture(autouse=True)
def runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, and join again at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(nodes, "_PAUSE_SECONDS", 0.1)


def command(folder: Path, place: Place, codes: str, patience: int = 60) -> list[str]:
    """The launcher of a node with one rank, which ends with each of the exit codes in turn."""
    return ranks_command(1, [sys.executable, "-c", RANK, str(folder), codes], place, patience)


def test_a_node_joins_again_after_its_rank_died(tmp_path: Path, endpoint: str) -> None:
    def lead() -> None:
        for _ in range(2):
            subprocess.run(command(tmp_path, Place(2, 0, endpoint), "1"), timeout=120, check=False)

    first = threading.Thread(target=lead)
    first.start()
    second = Place(2, 1, endpoint)
    code = run_follower_node(RunSettings(), second, lambda path, patience: command(tmp_path, second, "1", patience))
    first.join()

    assert code == 0
    started = {path.name: path.read_text() for path in tmp_path.glob("started_*")}
    assert started == {f"started_{rank}_{attempt}": f"{rank} of 2" for rank in range(2) for attempt in range(2)}
    assert len(list((tmp_path / "logs" / "nodes").iterdir())) == 1


def test_a_first_node_that_does_not_answer(tmp_path: Path, endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(2, 1, endpoint)
    waits = []

    def short(path: Path, patience: int) -> list[str]:
        waits.append(patience)
        return command(tmp_path, place, "0", patience=1)

    assert run_follower_node(RunSettings(), place, short) == 1
    assert waits == [nodes.LEADER_SEARCHES_SECONDS]
    assert endpoint in capsys.readouterr().err
    (log,) = tmp_path.glob("logs/nodes/*/worker.log")
    assert f"{endpoint} " in log.read_text(encoding="utf-8")


def test_a_node_that_does_not_come_ends_the_run_of_the_first_one(tmp_path: Path, endpoint: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    composed = compose(["num_envs=256", "device=cpu"]).with_values({"nodes": 2})
    record = RunRecord.create(folder, composed)
    leads = command(tmp_path, Place(2, 0, endpoint), "0", patience=1)
    code, death = supervise(record, TrainJob(composed), lambda *_, **__: leads)
    assert (code, death and death.cause) == (UNANSWERED, DeathCause.ERROR)
    assert death is not None
    assert endpoint in death.detail


@pytest.mark.parametrize(
    ("checkpoint", "is_restart", "patience"),
    [(None, False, 1500), (Path("model_3.pt"), False, 1500), (Path("model_3.pt"), True, 300)],
    ids=["new", "resumed", "restarted"],
)
def test_patience_of_the_first_node(tmp_path: Path, checkpoint: Path | None, is_restart: bool, patience: int) -> None:
    settings = RunSettings(nodes=2, node_rank=0, rendezvous="alpha", device="cpu")
    words = start_command(TrainJob(settings, checkpoint), tmp_path, is_restart=is_restart)
    assert f"--patience={patience}" in words
    # Otherwise its supervisor takes it for hung.
    assert patience < watch.STARTUP_SECONDS - 120


def test_a_port_that_is_taken_is_told_from_a_node_that_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as taken:
        endpoint = f"localhost:{taken.getsockname()[1]}"
        leads = command(tmp_path, Place(2, 0, endpoint), "0", patience=30)
        done = subprocess.run(leads, timeout=120, check=False, capture_output=True, text=True)
    assert done.returncode == UNANSWERED
    for part in (endpoint, "in use", "rendezvous="):
        assert part in done.stderr


def run_two(folder: Path, first: Place, second: Place, patience: int) -> list[int]:
    """Run the launchers of two nodes, and return their exit codes."""
    started = [subprocess.Popen(command(folder, each, "0", patience)) for each in (first, second)]
    try:
        return [process.wait(120) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_nodes_of_two_runs_that_come_to_the_same_port_do_not_train_together(tmp_path: Path, endpoint: str) -> None:
    codes = run_two(tmp_path, Place(2, 0, endpoint, "run of job 1"), Place(2, 1, endpoint, "run of job 2"), 5)
    assert codes == [UNANSWERED, UNANSWERED]
    assert list(tmp_path.glob("started_*")) == []


def test_nodes_meet_at_an_ipv6_address(tmp_path: Path) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
            port = free.getsockname()[1]
    except OSError:
        pytest.skip("this machine has no IPv6")
    settings = [RunSettings(nodes=2, node_rank=rank, rendezvous=f"[::1]:{port}") for rank in range(2)]
    first, second = map(find_place, settings)
    assert run_two(tmp_path, first, second, 60) == [0, 0]
    assert len(list(tmp_path.glob("started_*"))) == 2


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        # The ranks end, and then nobody answers: only a run that was asked to stop may be tried again.
        ([75, UNANSWERED], 75),
        ([1, UNANSWERED], 1),
        # Too many deaths.
        ([3, 3, 3], 1),
    ],
)
def test_a_node_ends_as_its_ranks_or_the_first_node_did(endpoint: str, codes: list[int], expected: int) -> None:
    settings = RunSettings().with_values({"supervise.max_restarts": 2})
    left = iter(codes)
    ends = [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))"]
    place = Place(2, 1, endpoint)
    assert run_follower_node(settings, place, lambda path, patience: [*ends, str(next(left))]) == expected
    assert list(left) == []


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second node of a step of two, whose first one is called alpha, in a job of three."""
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text('#!/bin/sh\n[ "$1 $2" = "show hostnames" ] && echo "$3" | tr , "\\n"\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(scontrol.parent), prepend=":")
    lists = {"STEP_NODELIST": "alpha,beta", "JOB_NODELIST": "omega,alpha,beta"}
    for name, value in {"NNODES": "2", "NODEID": "1", "JOB_ID": "4711", "STEP_ID": "0", **lists}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)


@pytest.mark.usefixtures("slurm")
def test_slurm_says_which_node_this_is_and_where_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    second = find_place(RunSettings(nodes=2))
    host, _, port = second.endpoint.partition(":")
    assert (second.nodes, second.rank, host, second.run_id) == (2, 1, "alpha", "isaaclab_pc_4711.0")
    # None that Linux gives to whoever asks for any.
    assert 20_000 <= int(port) < 30_000
    assert find_place(RunSettings(nodes=2, rendezvous="beta:1234", node_rank=0)) == Place(2, 0, "beta:1234")
    assert find_place(RunSettings(nodes=2, rendezvous="[fd00::1]")) == Place(2, 1, "[fd00::1]:29400")
    with pytest.raises(ConfigError, match=r"^nodes=3: .*nodes=2"):
        find_place(RunSettings(nodes=3))

    monkeypatch.setenv("SLURM_NODEID", "0")
    first = find_place(RunSettings(nodes=2))
    assert (first.rank, first.endpoint, first.run_id) == (0, second.endpoint, second.run_id)


@pytest.mark.usefixtures("slurm")
def test_runs_of_other_jobs_and_steps_meet_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    places = []
    for job, step in (("4711", "0"), ("4711", "1"), ("4712", "0")):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.setenv("SLURM_STEP_ID", step)
        places.append(find_place(RunSettings(nodes=2)))
    assert len({each.endpoint for each in places}) == len({each.run_id for each in places}) == 3


@pytest.mark.parametrize("host", ["::1", "[alpha]", "a b", "alpha:port"])
def test_what_is_no_host_is_no_rendezvous(host: str) -> None:
    with pytest.raises(ConfigError, match="rendezvous"):
        RunSettings(rendezvous=host)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": 2}, "^nodes=2: .*node_rank=0 .*srun"),
        ({"nodes": 2, "node_rank": 0}, "^nodes=2: .*rendezvous=<first node>:29400"),
        ({"nodes": 2, "node_rank": 2, "rendezvous": "alpha"}, "^node_rank=2: .*nodes=2, .*node_rank=1"),
        ({"node_rank": 1}, "^node_rank=1: .*nodes="),
    ],
)
def test_unknown_place(monkeypatch: pytest.MonkeyPatch, values: dict[str, object], message: str) -> None:
    for name in ("NNODES", "NODEID", "JOB_ID", "JOB_NODELIST", "STEP_NODELIST"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    with pytest.raises(ConfigError, match=message):
        find_place(RunSettings().with_values(values))

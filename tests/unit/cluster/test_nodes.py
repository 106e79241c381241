# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes on one machine, with real launchers and processes."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from isaaclab_pc.cluster import nodes
from isaaclab_pc.cluster.nodes import lend_gpus
from isaaclab_pc.cluster.place import Place, find_place
from isaaclab_pc.cluster.ranks import UNANSWERED, ranks_command
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings

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
    code = lend_gpus(RunSettings(), second, lambda path, patience: command(tmp_path, second, "1", patience))
    first.join()

    assert code == 0
    started = {path.name: path.read_text() for path in tmp_path.glob("started_*")}
    assert started == {f"started_{rank}_{attempt}": f"{rank} of 2" for rank in range(2) for attempt in range(2)}
    assert len(list((tmp_path / "logs" / "nodes").iterdir())) == 1


def test_a_first_node_that_does_not_answer_ends_the_wait(
    tmp_path: Path, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(2, 1, endpoint)
    waits = []

    def short(path: Path, patience: int) -> list[str]:
        waits.append(patience)
        return command(tmp_path, place, "0", patience=1)

    assert lend_gpus(RunSettings(), place, short) == 1
    assert waits == [nodes.LEADER_SEARCHES_SECONDS]
    assert f"{endpoint} did not answer" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "expected"), [(75, 75), (1, 1)])
def test_only_a_run_that_was_asked_to_stop_may_be_tried_again(
    tmp_path: Path, endpoint: str, code: int, expected: int
) -> None:
    # The ranks end, and then nobody answers.
    codes = iter([code, UNANSWERED])
    place = Place(2, 1, endpoint)
    ends = [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))"]
    assert lend_gpus(RunSettings(), place, lambda path, patience: [*ends, str(next(codes))]) == expected


def test_a_node_gives_up_after_too_many_deaths(tmp_path: Path, endpoint: str) -> None:
    settings = RunSettings().with_values({"supervise.max_restarts": 2})
    attempts = []

    def fails(path: Path, patience: int) -> list[str]:
        attempts.append(patience)
        return [sys.executable, "-c", "raise SystemExit(3)"]

    assert lend_gpus(settings, Place(2, 1, endpoint), fails) == 1
    assert len(attempts) == 3


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second node of a job of two, whose first one is called alpha."""
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames alpha,beta" ] && printf "alpha\\nbeta\\n"\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(scontrol.parent), prepend=":")
    for name, value in {"NNODES": "2", "NODEID": "1", "JOB_NODELIST": "alpha,beta"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)


@pytest.mark.usefixtures("slurm")
def test_slurm_says_which_node_this_is_and_where_they_meet() -> None:
    assert find_place(RunSettings(nodes=2)) == Place(2, 1, "alpha:29400")
    assert find_place(RunSettings(nodes=2, rendezvous="beta:1234", node_rank=0)) == Place(2, 0, "beta:1234")
    with pytest.raises(ConfigError, match="nodes=3: SLURM's job has 2; give nodes=2"):
        find_place(RunSettings(nodes=3))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": 2}, "which of them is this.*node_rank=0 on the first one.*srun"),
        ({"nodes": 2, "node_rank": 0}, r"where do they meet.*rendezvous=<first node>:29400"),
        ({"nodes": 2, "node_rank": 2, "rendezvous": "alpha"}, "node_rank=2: of nodes=2, the last one has node_rank=1"),
        ({"node_rank": 1}, "node_rank=1: there is one node; give nodes="),
    ],
)
def test_a_place_that_cannot_be_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, object], message: str
) -> None:
    for name in ("NNODES", "NODEID", "JOB_NODELIST"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    with pytest.raises(ConfigError, match=message):
        find_place(RunSettings().with_values(values))

# SPDX-License-Identifier: BSD-3-Clause
"""The checks of tests/conftest.py catch what they are for: each runs pytest on tests that do wrong."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAKS = """
import os, signal, subprocess, sys, threading

def test_environment(): os.environ["LEAKED"] = "1"
def test_signal(): signal.signal(signal.SIGUSR2, signal.SIG_IGN)
def test_child(): subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
over = threading.Event()
def test_thread(): threading.Thread(target=over.wait, name="busy").start()

def test_after():
    over.set()
    assert "LEAKED" not in os.environ
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
"""


def _pytest(folder: Path, body: str, *options: str) -> tuple[int, str]:
    """Run pytest with our conftest and configuration on a file with the given body."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "conftest.py")
    (folder / "test_it.py").write_text(body, encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), *options)
    result = subprocess.run([*command, "test_it.py"], cwd=folder, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_a_leak_fails_its_test_and_does_not_reach_the_next(tmp_path: Path):
    code, output = _pytest(tmp_path, LEAKS)
    assert code == pytest.ExitCode.TESTS_FAILED
    # A leak shows after the test itself has passed: five pass, four of them have an error afterwards.
    assert re.search("5 passed.* 4 errors", output)
    for leak in (r"\['LEAKED'\]", r"\['SIGUSR2'\]", r"\['.*time.sleep\(60\)'\]", r"\['busy'\]"):
        assert re.search(rf": {leak}", output), output


def test_two_physics_backends_in_one_run_are_refused(tmp_path: Path):
    body = "import pytest\n@pytest.mark.sim\ndef test_a(): pass\n@pytest.mark.physx\ndef test_b(): pass\n"
    assert _pytest(tmp_path, body)[0] == pytest.ExitCode.USAGE_ERROR
    assert _pytest(tmp_path, body, "-m", "not physx")[0] == pytest.ExitCode.OK


def test_a_run_in_which_nothing_of_a_backend_passed_fails_when_asked(tmp_path: Path):
    body = "import pytest\ndef test_skipped(): pytest.skip('no')\ndef test_passes(): pass\n"
    assert _pytest(tmp_path, body, "--fail-if-none-passed")[0] == pytest.ExitCode.OK
    assert _pytest(tmp_path, body, "-k", "skipped")[0] == pytest.ExitCode.OK
    code, _ = _pytest(tmp_path, body, "-k", "skipped", "--fail-if-none-passed")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    body = "import pytest\ndef test_unit(): pass\n@pytest.mark.physx\ndef test_physx(): pytest.skip('no ovphysx')\n"
    assert _pytest(tmp_path, body, "--fail-if-none-passed")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_each_of_two_workers_runs_one_physics_backend(tmp_path: Path):
    body = """
import pytest

@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("backend", ["newton", pytest.param("physx", marks=pytest.mark.physx)])
@pytest.mark.sim
def test_backend(backend, index, worker_id):
    with open(f"{worker_id}.txt", "a") as file:
        file.write(backend + "\\n")

def test_unit(): pass
"""
    code, output = _pytest(tmp_path, body, "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    assert code == pytest.ExitCode.OK, output
    ran = sorted((tmp_path / f"gw{index}.txt").read_text().split() for index in range(2))
    assert ran == [["newton"] * 4, ["physx"] * 4]

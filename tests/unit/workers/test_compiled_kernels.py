# SPDX-License-Identifier: BSD-3-Clause
"""A process that compiled kernels is told from one that found them all on disk, with a real compiler."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WARP = """
import warp as wp
@wp.kernel
def double(x: wp.array(dtype=float)):
    x[wp.tid()] = 2.0 * x[wp.tid()]
wp.launch(double, dim=4, inputs=[wp.zeros(4, dtype=float, device="cpu")], device="cpu")
"""


@pytest.fixture
def tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    """Run code in a process with caches of its own, and return what it tells."""
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "warp"))

    def run(code: str) -> bool:
        script = tmp_path / "script.py"
        ask = "from isaaclab_pc.workers.compiled_kernels import has_compiled_kernels"
        script.write_text(f"{ask}\n{code}\nprint('told', has_compiled_kernels())\n", encoding="utf-8")
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
        (told,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("told ")]
        return told == "True"

    return run


def test_kernels_of_warp_are_compiled_once(tells: Callable[[str], bool]) -> None:
    assert [tells(WARP), tells(WARP), tells(WARP.replace("2.0", "3.0"))] == [True, False, True]


def test_a_process_that_runs_no_kernel_compiled_none(tells: Callable[[str], bool]) -> None:
    assert not tells("import warp as wp; wp.init()")

# SPDX-License-Identifier: BSD-3-Clause
"""Native lines are logged until they are a flood, then counted; a real child writes them past Python."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.processes import output_filter
from isaaclab_pc.processes.output_filter import FLOOD, ChildLines, OutputFilter, Repeats
from tests.waiting import wait_until

TRANSFORM = "[Warning] [] Invalid PhysX transform detected for /World/envs/env_{}/Robot/panda_link{}."
NEFC = "nefc overflow - please increase njmax to {}"


def counts(*lines: str) -> list[int]:
    repeats = Repeats()
    return [repeats.count(line.encode()) for line in lines]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (TRANSFORM.format(1, 7), TRANSFORM.format(25, 2), True),
        (NEFC.format(16), NEFC.format(432), True),
        ("mass of /World/Cube is nan", "mass of /World/envs/Arm is -1.5e-07", True),
        ("array at 0x7f3a of size -inf", "array at 0xbeef of size 3", True),
        ("contact buffer overflow", "patch buffer overflow", False),
        (", FILE /src/a/Broad.cpp, LINE 113", ", FILE /src/a/Narrow.cpp, LINE 113", False),
        ("infinite loop", "nanobot loop", False),
    ],
)
def test_lines_that_differ_in_numbers_and_prim_paths_alone_are_of_one_kind(one: str, other: str, alike: bool) -> None:
    assert counts(one, other) == [1, 2 if alike else 1]


def test_a_traceback_never_counts() -> None:
    first = ["Traceback (most recent call last):", "Current thread 0x7f (most recent call first):"]
    traceback = [*first, '  File "/a/one.py", line 1, in f', ""]
    assert counts(*traceback, *traceback) == 8 * [0]


def test_lines_of_ever_new_kinds_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_filter, "MAX_KINDS", 3)
    assert counts("alpha", "beta", "gamma", "delta", "epsilon", "alpha") == [1, 1, 1, 1, 2, 2]


CHILD = """
    import ctypes, os, signal, sys
    from pathlib import Path
    from isaaclab_pc.processes.output_filter import divert_output
    user = divert_output(Path(sys.argv[1]))
    libc = ctypes.CDLL(None)
    stderr = ctypes.c_void_p.in_dll(libc, "stderr")
"""


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., tuple[subprocess.CompletedProcess[str], str]]:
    """Run a child under ``run_child`` in a parent of its own; give its end and the log."""

    def run(code: str) -> tuple[subprocess.CompletedProcess[str], str]:
        script, log = tmp_path / "child.py", tmp_path / "worker.log"
        script.write_text(textwrap.dedent(CHILD) + textwrap.dedent(code), encoding="utf-8")
        parent = (
            "import sys, pathlib; from isaaclab_pc.processes.child_process import run_child\n"
            f"log = pathlib.Path({str(log)!r})\n"
            f"sys.exit(run_child([sys.executable, {str(script)!r}, str(log)], log=log))"
        )
        done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=120, check=False)
        return done, log.read_text(encoding="utf-8")

    return run


def test_a_flood_on_both_descriptors_is_logged_at_first_then_counted_and_warned_of_once(child: Callable) -> None:
    done, log = child("""
        print("from Python")
        for number in range(3000):
            libc.printf(b"nefc overflow - please increase njmax to %d\\n", number)
            libc.fprintf(stderr, b"Invalid transform of /World/envs/env_%d/Robot\\n", number)
            if number % 500 == 0:
                user.write(f"iteration {number}\\n")
                user.flush()
        print("from Python")
        print("from Python", file=sys.stderr)
        os._exit(0)
    """)
    assert done.returncode == 0
    assert done.stdout == "".join(f"iteration {number}\n" for number in range(0, 3000, 500))
    assert log.count("from Python\n") == 3
    lines, warnings = log.splitlines(), done.stderr.splitlines()
    assert len(warnings) == 2
    for kind in ("nefc overflow - please increase njmax to {}", "Invalid transform of /World/envs/env_{}/Robot"):
        shown = [line for line in lines if line.startswith(kind[:8])]
        assert shown == [kind.format(number) for number in range(FLOOD)]
        (total,) = [line for line in lines if line.endswith(f") {kind.format(0)}")]
        assert "3000" in total
        (warning,) = [line for line in warnings if kind.format(FLOOD) in line]
        assert "worker.log" in warning


def test_the_last_words_of_a_crash_come_out_whole(child: Callable) -> None:
    done, log = child("""
        import faulthandler
        faulthandler.enable(file=2)
        for number in range(200):
            libc.printf(b"flood %d\\n", number)
        os.write(2, b"terminate ")
        libc.printf(b"flood on the other descriptor\\n")
        os.write(2, b"called")
        os.kill(os.getpid(), signal.SIGABRT)
    """)
    assert done.returncode == 128 + signal.SIGABRT
    assert "terminate called" in log
    assert '  File "' in log, "where Python was"
    assert ") flood 0\n" in log


def test_a_parent_that_is_killed_does_not_take_the_childs_last_work(tmp_path: Path) -> None:
    log, done = tmp_path / "worker.log", tmp_path / "done"
    # It gets SIGTERM when its parent dies, and finishes its work, as a worker does.
    code = textwrap.dedent(CHILD) + textwrap.dedent(f"""
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        user.write("ready\\n")
        while os.getppid() == int(sys.argv[2]):
            pass
        for number in range(10000):
            libc.printf(b"flood %d\\n", number)
        print("checkpoint written")
        open({str(done)!r}, "w").close()
    """)
    parent = (
        "import os, pathlib, sys; from isaaclab_pc.processes.child_process import run_child\n"
        f"run_child([sys.executable, '-c', {code!r}, {str(log)!r}, str(os.getpid())], log=pathlib.Path({str(log)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.read() == ""

    wait_until(done.exists)
    assert "checkpoint written" in log.read_text(encoding="utf-8")


def test_a_log_that_cannot_be_written_does_not_stop_the_child(tmp_path: Path) -> None:
    with OutputFilter(tmp_path / "gone" / "worker.log", inlets=1) as output:
        for number in range(50_000):  # far more than a pipe holds
            os.write(output.inlets[0], b"flood %d\n" % number)
    assert output.repeats.floods() == [("flood 0", 50_000)]


def test_a_process_that_stays_does_not_keep_the_reader() -> None:
    lines: list[bytes] = []
    with ChildLines(lines.append) as output:
        stays = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=output.inlets[0])
        os.write(output.inlets[0], b"half a line")
    stays.kill()
    stays.wait()
    assert lines == [b"half a line"]

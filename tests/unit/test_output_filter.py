# SPDX-License-Identifier: BSD-3-Clause
"""Floods of native lines are shown once and counted; a real child writes them past Python."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc import output_filter
from isaaclab_pc.launch.child_process import run_child
from isaaclab_pc.output_filter import OutputFilter, Repeats, full_log
from tests.waiting import wait_until

TRANSFORM = "[Warning] [] Invalid PhysX transform detected for /World/envs/env_{}/Robot/panda_link{}.\n"
NEFC = "nefc overflow - please increase njmax to {}\n"


def passed(lines: list[str]) -> list[str]:
    repeats = Repeats()
    return [text for line in lines if (text := repeats.feed(line.encode()).decode())]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TRANSFORM.format(1, 7), TRANSFORM.format(25, 2)),
        (NEFC.format(16), NEFC.format(432)),
        ("mass of /World/Cube is nan\n", "mass of /World/envs/Arm is -1.5e-07\n"),
        ("array at 0x7f3a of size -inf\n", "array at 0xbeef of size 3\n"),
    ],
)
def test_lines_that_differ_in_numbers_and_prim_paths_are_of_one_kind(one: str, other: str) -> None:
    assert passed([one, other]) == [one]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("contact buffer overflow\n", "patch buffer overflow\n"),
        (", FILE /src/a/Broad.cpp, LINE 113\n", ", FILE /src/a/Narrow.cpp, LINE 113\n"),
        ("infinite loop\n", "nanobot loop\n"),
    ],
)
def test_other_lines_are_of_other_kinds(one: str, other: str) -> None:
    assert passed([one, other]) == [one, other]


def test_counts_are_noted_at_every_tenfold() -> None:
    shown = passed([NEFC.format(number) for number in range(1, 1235)])
    assert shown == [
        NEFC.format(1),
        "(10 such lines so far) " + NEFC.format(10),
        "(100 such lines so far) " + NEFC.format(100),
        "(1000 such lines so far) " + NEFC.format(1000),
    ]


def test_a_traceback_passes_whole_however_often_it_comes() -> None:
    traceback = [
        "Traceback (most recent call last):\n",
        '  File "/a/one.py", line 1, in f\n',
        '  File "/a/two.py", line 2, in f\n',
        "Current thread 0x00007f (most recent call first):\n",
        "\n",
    ]
    assert passed(3 * traceback) == 3 * traceback


def test_lines_of_ever_new_kinds_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_filter, "MAX_KINDS", 3)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    assert passed([f"{word}\n" for word in words]) == ["alpha\n", "beta\n", "gamma\n", "delta\n"]


CHILD = """
    import ctypes, os, signal, sys
    from pathlib import Path
    from isaaclab_pc.output_filter import divert_output
    user = divert_output(Path(sys.argv[1]))
    libc = ctypes.CDLL(None)
    stderr = ctypes.c_void_p.in_dll(libc, "stderr")
"""


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., tuple[subprocess.CompletedProcess[str], str, str]]:
    """Run a child under ``run_child`` in a parent of its own; give its end, the log, and the full log."""

    def run(code: str, before: str = "") -> tuple[subprocess.CompletedProcess[str], str, str]:
        script, log = tmp_path / "child.py", tmp_path / "worker.log"
        script.write_text(textwrap.dedent(CHILD) + textwrap.dedent(code), encoding="utf-8")
        parent = (
            f"import sys, pathlib; from isaaclab_pc.launch.child_process import run_child\n{before}\n"
            f"log = pathlib.Path({str(log)!r})\n"
            f"sys.exit(run_child([sys.executable, {str(script)!r}, str(log)], log=log))"
        )
        done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=120, check=False)
        return done, log.read_text(encoding="utf-8"), full_log(log).read_text(encoding="utf-8")

    return run


def test_a_flood_on_both_descriptors_is_shown_once_and_nothing_of_it_is_lost(child: Callable) -> None:
    done, log, full = child("""
        print("made by Python")
        for number in range(3000):
            libc.printf(b"nefc overflow - please increase njmax to %d\\n", number)
            libc.fprintf(stderr, b"Invalid transform of /World/envs/env_%d/Robot\\n", number)
            if number % 500 == 0:
                user.write(f"iteration {number}\\n")
                user.flush()
        print("made by Python")
        print("made by Python", file=sys.stderr)
        os._exit(0)
    """)
    assert done.returncode == 0
    assert done.stdout == "".join(f"iteration {number}\n" for number in range(0, 3000, 500))
    assert done.stderr.splitlines()[:2] == [
        "note: native code printed 3000 lines such as: nefc overflow - please increase njmax to 0",
        "note: native code printed 3000 lines such as: Invalid transform of /World/envs/env_0/Robot",
    ]
    assert "worker.native.log" in done.stderr
    assert log.count("made by Python\n") == 3
    assert log.count("nefc overflow") == 5, "the first, at 10, 100 and 1000, and in all"
    assert log.count("Invalid transform") == 5
    for kind in ("nefc overflow - please increase njmax to {}", "Invalid transform of /World/envs/env_{}/Robot"):
        lines = [line for line in full.splitlines() if line.startswith(kind[:8])]
        assert lines == [kind.format(number) for number in range(3000)]


def test_the_last_words_of_a_crash_come_out_whole(child: Callable) -> None:
    done, log, full = child("""
        import faulthandler
        faulthandler.enable()
        for number in range(200):
            libc.printf(b"flood %d\\n", number)
        os.write(2, b"terminate called after ")
        libc.printf(b"flood on the other descriptor\\n")
        os.write(2, b"throwing: no line feed")
        os.kill(os.getpid(), signal.SIGABRT)
    """)
    assert done.returncode == 128 + signal.SIGABRT
    for text in (log, full):
        assert "terminate called after throwing: no line feed" in text
    assert '  File "' in log, "where Python was"
    assert full.count("flood") == 201


def test_after_ctrl_c_everything_that_was_printed_is_there(child: Callable) -> None:
    _, log, full = child(
        """
        for number in range(50):
            libc.printf(b"flood %d\\n", number)
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    """,
        before="import signal; signal.signal(signal.SIGINT, signal.default_int_handler)",
    )
    assert full.count("flood") == 50
    assert "(in all 50 lines such as) flood 0\n" in log
    assert "KeyboardInterrupt" in log


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
        "import os, pathlib, sys; from isaaclab_pc.launch.child_process import run_child\n"
        f"run_child([sys.executable, '-c', {code!r}, {str(log)!r}, str(os.getpid())], log=pathlib.Path({str(log)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.stdout.read() == ""

    wait_until(done.exists)
    assert "checkpoint written" in log.read_text(encoding="utf-8")


def test_a_quiet_child_leaves_no_notes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_child([sys.executable, "-c", "print('hello')"], log=tmp_path / "worker.log") == 0
    assert capfd.readouterr() == ("hello\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_full_log_keeps_the_last_text_in_two_bounded_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_filter, "MAX_BYTES", 1000)
    log = tmp_path / "worker.log"
    with OutputFilter(log, inlets=1) as output:
        for number in range(1000):
            os.write(output.inlets[0], b"flood %d\n" % number)
    newest, older = full_log(log), full_log(log).with_name("worker.native.log.1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [log.name, newest.name, older.name]
    text = older.read_text() + newest.read_text()
    assert 1000 <= len(text) <= 2100
    first = int(text.split()[1])
    assert text.splitlines() == [f"flood {number}" for number in range(first, 1000)]


def test_a_log_that_cannot_be_written_does_not_stop_the_child(tmp_path: Path) -> None:
    with OutputFilter(tmp_path / "gone" / "worker.log", inlets=1) as output:
        for number in range(50_000):  # far more than a pipe holds
            os.write(output.inlets[0], b"flood %d\n" % number)
    assert output.summary()[0].startswith("note: native code printed 50000 lines")


def test_a_process_that_stays_does_not_keep_the_filter(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with OutputFilter(log, inlets=1) as output:
        stays = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=output.inlets[0])
        os.write(output.inlets[0], b"half a line")
    stays.kill()
    stays.wait()
    assert log.read_text() == "half a line\n"


def test_a_pipe_that_closes_does_not_end_its_writer(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from isaaclab_pc.output_filter import divert_output
        user = divert_output(Path("log"))
        user.write("iteration 1\\n")
        sys.stdin.readline()
        for number in range(1000):
            user.write(f"iteration {number}\\n")
        user.flush()
        Path("checkpoint").touch()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "iteration 1\n"
    process.stdout.close()
    process.stdin.write("\n")
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    assert (tmp_path / "checkpoint").exists()

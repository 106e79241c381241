# SPDX-License-Identifier: BSD-3-Clause
"""Children are small Python scripts; the parent that is signalled is one too, so that the test runner is not."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import (
    LOG_LINES,
    STOP_SIGNALS,
    ExitCode,
    SignalFlag,
    exit_code_of,
    interruptible,
    run_child,
    show_log,
)
from tests.waiting import is_gone

# A worker that notes so many signals, takes a moment to write its checkpoint, and leaves with the code of the first.
POLITE = """
    import signal, sys, time
    got = []
    def note(number, _):
        got.append(number)
        print("got", number, flush=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, note)
    print("ready", flush=True)
    while len(got) < NUM_SIGNALS:
        time.sleep(0.01)
    time.sleep(0.5)
    print("checkpoint:", *got, flush=True)
    sys.exit(128 + got[0])
"""
STUBBORN = """
    import signal, subprocess, sys, time
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print("ready", grandchild.pid, flush=True)
    time.sleep(60)
"""


def polite(num_signals=1):
    return POLITE.replace("NUM_SIGNALS", str(num_signals))


@pytest.fixture
def parent(tmp_path):
    """Start a parent that runs a child; give it once the child is ready, and the processes below it."""
    started = []

    def start(child_code, grace=30.0):
        script = tmp_path / "child.py"
        script.write_text(textwrap.dedent(child_code), encoding="utf-8")
        code = (
            "import sys; from isaaclab_pc.processes import child_process;"
            f"child_process.GRACE_SECONDS = {grace};"
            f"code = child_process.run_child([sys.executable, {str(script)!r}]);"
            "print('code', code, flush=True); sys.exit(code)"
        )
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready"), line
        return process, psutil.Process(process.pid).children(recursive=True)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def send_and_wait(process, number):
    """Send a parent a signal, and wait until its child has it."""
    process.send_signal(number)
    assert process.stdout.readline() == f"got {int(number)}\n"


def begin_to_stop(process):
    """Send a parent Ctrl-C, and wait until it has passed it on: another one before would be the same one."""
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert process.stderr.readline().startswith("stopping; ")


@pytest.mark.parametrize(
    ("program", "code"),
    [*((f"raise SystemExit({code})", code) for code in (0, 2, 7)), ("import os; os.kill(os.getpid(), 11)", 139)],
)
def test_the_childs_exit_code_is_passed_on(program, code):
    assert run_child([sys.executable, "-c", program]) == code


@pytest.mark.parametrize(
    ("job", "numbers"),
    [
        *(("", [number]) for number in STOP_SIGNALS),
        # A scheduler has two kinds, and SLURM repeats its own.
        ("", [signal.SIGUSR1, signal.SIGTERM]),
        ("4711", 3 * [signal.SIGTERM]),
    ],
)
def test_each_signal_is_passed_on_once_and_the_child_finishes_its_checkpoint(parent, monkeypatch, job, numbers):
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    process, _ = parent(polite(len(numbers)))
    for number in numbers:
        send_and_wait(process, number)
    output, _ = process.communicate(timeout=60)
    code = 128 + numbers[0]
    assert output.split() == ["checkpoint:", *(str(int(number)) for number in numbers), "code", str(code)]
    assert process.returncode == code


def test_a_hangup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible(), SignalFlag() as flag:
            signal.raise_signal(signal.SIGHUP)
            assert flag.received == []
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_a_child_can_be_watched():
    seen = []

    def watch(child):
        seen.append(child)
        if len(seen) == 3:
            child.send_signal(signal.SIGTERM)

    assert run_child(SLEEPER, watch=watch) == 143
    assert len(seen) >= 3


def test_a_child_that_its_watch_gives_up_is_ended_as_a_failure():
    looks = []

    def watch(child):
        child.sample()
        looks.append(list(child.pids))
        return len(looks) > 1

    assert run_child(SLEEPER, watch=watch) == ExitCode.FAILED
    assert [pid for pid in looks[-1] if not is_gone(pid)] == []


@pytest.mark.parametrize("job", ["", "4711"])
def test_a_second_ctrl_c_ends_everything_at_once_also_in_a_job_of_slurm(parent, monkeypatch, job):
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    process, family = parent(STUBBORN)
    begin_to_stop(process)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert len(family) == 2
    assert psutil.wait_procs(family, timeout=30)[1] == []


def test_a_child_that_ignores_the_signal_is_ended_after_the_grace_period(parent):
    process, family = parent(STUBBORN, grace=0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    assert len(family) == 2
    assert psutil.wait_procs(family, timeout=30)[1] == []


def test_a_worker_does_not_outlive_a_killed_parent(parent):
    process, family = parent("""
        import time
        print("ready", flush=True)
        time.sleep(60)
    """)
    process.kill()
    assert len(family) == 1
    assert psutil.wait_procs(family, timeout=30)[1] == []


def test_a_terminal_that_closes_stops_the_child_with_its_checkpoint(tmp_path):
    child, result = tmp_path / "child.py", tmp_path / "result"
    child.write_text(
        textwrap.dedent(polite()).replace('print("checkpoint', f'open({str(result)!r}, "a").write("checkpoint\\n"); #'),
        encoding="utf-8",
    )
    driver = (
        "import sys; from isaaclab_pc.processes.child_process import run_child;"
        f"code = run_child([sys.executable, {str(child)!r}]);"
        f"open({str(result)!r}, 'a').write(f'code {{code}}')"
    )
    master, slave = os.openpty()
    command = ["setsid", "--ctty", "--wait", sys.executable, "-c", driver]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    try:
        os.close(slave)
        shown = b""
        while not shown.endswith(b"\n"):
            shown += os.read(master, 1)
        assert shown == b"ready\r\n"
        os.close(master)
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert result.read_text(encoding="utf-8") == f"checkpoint\ncode {128 + signal.SIGHUP}"


def test_handlers_are_restored():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with SignalFlag() as flag:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert flag.received == [signal.SIGTERM, signal.SIGINT]
        assert flag.exit_code == 143
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_unwinds_the_stack_where_there_is_nothing_to_save(number):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught, interruptible():
        signal.raise_signal(number)
    assert caught.value.code == 128 + number
    assert signal.getsignal(number) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_was_lost_is_remembered():
    class Callback:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    with interruptible():
        callback = Callback()
        del callback
        with SignalFlag() as flag:
            assert flag.received == [signal.SIGTERM]
            assert flag.exit_code == 143
    with SignalFlag() as flag:
        assert flag.received == []


def _raise(error):
    raise error


def _close_after(work):
    """Work, and fail once more while it is closed."""
    try:
        work()
    finally:
        raise RuntimeError("twice")


DISK_FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    ("work", "code", "last"),
    [
        (lambda: 4, 4, ""),
        (lambda: _raise(ConfigError("seed=-1")), ExitCode.REFUSED, "error: seed=-1"),
        (lambda: _close_after(lambda: _raise(ConfigError("seed=-1"))), ExitCode.REFUSED, "error: seed=-1"),
        (lambda: _close_after(lambda: _raise(ValueError("b"))), ExitCode.FAILED, "ValueError: b; then RuntimeError: "),
        # In one line, also where a library raised another error.
        (lambda: _close_after(lambda: Path("/dev/full").write_text("x")), ExitCode.DISK_FULL, f"({DISK_FULL})"),
        (lambda: _raise(SystemExit(143)), 143, ""),
        (lambda: _raise(SystemExit("no Kit")), ExitCode.FAILED, ""),
        (lambda: signal.raise_signal(signal.SIGINT), 130, ""),
        (lambda: signal.raise_signal(signal.SIGTERM), 143, ""),
    ],
)
def test_the_way_that_work_ends_is_an_exit_code_and_the_last_line_names_the_cause(capsys, work, code, last):
    assert exit_code_of(work) == code
    shown = capsys.readouterr().err
    assert bool(shown) == bool(last)
    assert not last or last in shown.splitlines()[-1]
    assert code != ExitCode.DISK_FULL or shown.count("\n") == 1


def test_the_end_of_a_failed_childs_log_is_shown_and_where_the_rest_is(capsys, tmp_path):
    log = tmp_path / "worker.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)), encoding="utf-8")
    show_log(log, 139)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:-1] == [f"line {number}" for number in range(100 - LOG_LINES, 100)]
    assert "139" in lines[-1]
    assert lines[-1].endswith(f" {log}")
    show_log(tmp_path / "none.log", 1)
    assert "none.log" in capsys.readouterr().err

# SPDX-License-Identifier: BSD-3-Clause
"""Children are small Python scripts; the parent that is signalled is one too, so that the test runner is not."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from isaaclab_pc.launch.child_process import SignalFlag, interruptible, run_child

# A worker that notes a signal, takes a moment to write its checkpoint, and leaves with the code it was told.
POLITE = """
    import signal, sys, time
    got = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: got.append(n))
    print("ready", flush=True)
    while not got:
        time.sleep(0.01)
    time.sleep(0.2)
    print("checkpoint written", flush=True)
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


@pytest.fixture
def parent(tmp_path):
    """Start a parent that runs a child; give its process once the child is ready, and its pid."""
    started = []

    def start(child_code, grace=30.0):
        script = tmp_path / "child.py"
        script.write_text(textwrap.dedent(child_code), encoding="utf-8")
        code = (
            "import sys; from isaaclab_pc.launch.child_process import run_child;"
            f"code = run_child([sys.executable, {str(script)!r}], grace={grace});"
            "print('code', code, flush=True); sys.exit(code)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready"), line
        return process, psutil.Process(process.pid).children(recursive=True)

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("code", [0, 1, 2, 7])
def test_the_childs_exit_code_is_passed_on(code):
    assert run_child([sys.executable, "-c", f"raise SystemExit({code})"]) == code


def test_a_child_that_a_signal_killed_gives_128_and_its_number():
    assert run_child([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"]) == 139


def test_the_child_has_a_process_group_of_its_own(tmp_path):
    path = tmp_path / "group"
    run_child([sys.executable, "-c", f"import os; open({str(path)!r}, 'w').write(str(os.getpgrp()))"])
    assert int(path.read_text()) != os.getpgrp()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_passed_on_once_and_the_child_finishes_its_checkpoint(parent, number, code):
    process, _ = parent(POLITE)
    process.send_signal(number)
    output, _ = process.communicate(timeout=20)
    assert output == f"checkpoint written\ncode {code}\n"
    assert process.returncode == code


def test_a_second_ctrl_c_ends_everything_at_once(parent):
    process, family = parent(STUBBORN)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=5) == 130
    assert len(family) == 2
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_a_child_that_ignores_the_signal_is_ended_after_the_grace_period(parent):
    process, family = parent(STUBBORN, grace=0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 143
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_what_a_dead_child_left_behind_is_ended(tmp_path):
    path = tmp_path / "pid"
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"open({str(path)!r}, 'w').write(str(p.pid))"
    )
    assert run_child([sys.executable, "-c", code]) == 0
    assert _gone(int(path.read_text()))


def test_a_worker_does_not_outlive_a_killed_parent(parent):
    process, family = parent("""
        import time
        from isaaclab_pc.launch.child_process import die_with_parent
        die_with_parent()
        print("ready", flush=True)
        time.sleep(60)
    """)
    process.kill()
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_handlers_are_restored():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with SignalFlag() as flag:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert flag.received == [signal.SIGTERM, signal.SIGINT]
        assert flag.exit_code == 143
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_unwinds_the_stack_where_there_is_nothing_to_save(number, code):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught, interruptible():
        signal.raise_signal(number)
    assert caught.value.code == code
    assert signal.getsignal(number) == before


def _gone(pid):
    try:
        psutil.Process(pid).wait(timeout=5)
    except psutil.NoSuchProcess:
        return True
    return not psutil.pid_exists(pid)

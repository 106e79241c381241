# SPDX-License-Identifier: BSD-3-Clause
"""Streams that close or know few letters do not end a script's work."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

# More than a pipe holds: a child whose lines nobody reads any more would wait for ever.
SCRIPT = textwrap.dedent(r"""
    import sys
    from isaaclab_pc.processes.child_process import run_child
    from isaaclab_pc.cli.script import script
    from isaaclab_pc.terminal.screen import current

    def work(arguments):
        current().begin("build", "building \u2013")
        child = "import sys; sys.stdout.buffer.write((b'\\xe2\\x80\\x93' * 100 + b'\\n') * 1000)"
        return run_child([sys.executable, "-c", child])

    sys.exit(script("help")(work)(sys.argv[1:]))
""")


def run(folder, *arguments, stdout=subprocess.PIPE, **variables):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(folder), **variables},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_pipe_that_closes_does_not_make_a_script_fail(tmp_path, arguments):
    read, write = os.pipe()
    os.close(read)
    try:
        done = run(tmp_path, *arguments, stdout=write)
    finally:
        os.close(write)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_letters_that_a_pipe_cannot_show_are_question_marks(tmp_path, encoding):
    done = run(tmp_path, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["building ?", *["?" * 100] * 1000]


# Runs all cases in forks of one process, which has loaded what they need. Their streams are as at the start of Python.
CASES = textwrap.dedent(r"""
    import gc, json, os, sys
    from pathlib import Path
    from isaaclab_pc.__main__ import main as program
    from isaaclab_pc.processes.child_process import run_child
    from isaaclab_pc.cli.script import script
    from isaaclab_pc.errors import ConfigError
    from isaaclab_pc.terminal.screen import current
    from isaaclab_pc.terminal.tables import table_console

    def work(arguments):
        file = os.open("opened", os.O_WRONLY | os.O_CREAT)
        assert file > 2
        current().begin("build", "building")
        print("printed")
        table_console(80).print("table")
        current().warn("warned")
        if "makes" not in arguments:
            return 0
        current().made("report", Path("opened"))
        return run_child(["sh", "-c", "echo child; echo child >&2; exit 0"], log=Path("worker.log"))

    def refuse(arguments):
        raise ConfigError("no such setting")

    works = script("help")(work)
    refuses = script("help")(refuse)

    def become(states):
        for number, state in enumerate(states):
            os.dup2(os.open("/dev/full" if state == "full" else f"stream{number}", os.O_RDWR | os.O_CREAT), number)
        os.closerange(3, 100)
        for number, state in enumerate(states):
            if state == "closed":
                os.close(number)
        for number, name in ((1, "stdout"), (2, "stderr")):
            stream = None if states[number] == "closed" else open(number, "w", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    # What is loaded is not looked at when a fork ends.
    gc.freeze()
    for what, arguments, states in json.loads(sys.argv[1]):
        folder = Path(" ".join([what, *arguments, *states]))
        folder.mkdir()
        pid = os.fork()
        if not pid:
            os.chdir(folder)
            become(states)
            sys.exit(globals()[what](arguments))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        (folder / "code").write_text(str(code))
""")

STATES = ("open", "closed", "full")
STREAMS = [("open", out, err) for out in STATES for err in STATES] + [("closed", "open", "open"), ("closed",) * 3]
"""States of standard input, output and error."""
FEW = [("open", "open", "full"), ("open", "closed", "open"), ("open", "full", "full"), ("closed",) * 3]

PRINTED = (("works", ["--json"]), ("works", ["--help"]), ("program", ["--help"]))
REFUSED = (("refuses", []), ("program", ["trian"]))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Tell how a case ended: its exit code, and what it wrote to the streams that are files."""
    folder = tmp_path_factory.mktemp("cases")
    cases = [("works", arguments, streams) for arguments in ([], ["makes"]) for streams in STREAMS]
    cases += [(*case, streams) for case in (*PRINTED, *REFUSED) for streams in FEW]
    subprocess.run(
        [sys.executable, "-c", CASES, json.dumps(cases)],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        cwd=folder,
        timeout=120,
        check=True,
    )

    def read(what, arguments, streams):
        case = folder / " ".join([what, *arguments, *streams])
        written = [case / f"stream{number}" for number in (1, 2)]
        out, err = (path.read_text(encoding="utf-8") if path.exists() else "" for path in written)
        assert "Traceback" not in out + err
        assert "Exception ignored" not in err
        opened = case / "opened"
        assert not opened.exists() or opened.read_bytes() == b"", "a stream has taken the place of a file"
        return int((case / "code").read_text()), out, err

    return read


@pytest.mark.parametrize("streams", STREAMS)
def test_a_script_that_makes_a_file_does_its_work_whatever_its_streams_are(outcome, streams):
    code, out, _ = outcome("works", ["makes"], streams)
    assert code == 0
    if streams[1] == "open":
        assert out.splitlines()[1:] == ["printed", "table", "report: opened", "child"]


@pytest.mark.parametrize(
    ("case", "streams"),
    [(("works", []), streams) for streams in STREAMS] + [(case, streams) for case in PRINTED for streams in FEW],
)
def test_a_script_that_only_prints_ends_well_whatever_its_streams_are(outcome, case, streams):
    assert outcome(*case, streams)[0] == 0


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("streams", FEW)
def test_a_refusal_keeps_its_exit_code_where_it_cannot_be_shown(outcome, case, streams):
    code, out, err = outcome(*case, streams)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") == (streams[2] == "open")


def test_a_full_disk_gets_what_fits(tmp_path):
    code = textwrap.dedent("""
        import resource, signal
        from isaaclab_pc.terminal.user_stream import standard_streams

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        with standard_streams():
            print("0123456789abcdef", end="")
    """)
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=out, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (tmp_path / "out").read_bytes() == b"0123456789"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_that_does_not_wait_gets_everything():
    read, write = os.pipe()
    os.set_blocking(write, False)
    code = "from isaaclab_pc.terminal.user_stream import standard_streams as s\nwith s():\n    print('x' * 1_000_000)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=write) as process, os.fdopen(read) as pipe:
        os.close(write)
        assert pipe.read() == "x" * 1_000_000 + "\n"
    assert process.returncode == 0

# SPDX-License-Identifier: BSD-3-Clause
"""What a script prints to may close, or know few letters: neither ends its work."""

import os
import subprocess
import sys
import textwrap

import pytest

# More than a pipe holds: a child whose lines nobody reads any more would wait for ever.
SCRIPT = textwrap.dedent(r"""
    import sys
    from isaaclab_pc.launch.child_process import run_child, run_script
    from isaaclab_pc.terminal.screen import current

    def work(arguments):
        current().begin("build", "building \u2013")
        child = "import sys; sys.stdout.buffer.write((b'\\xe2\\x80\\x93' * 100 + b'\\n') * 1000)"
        return run_child([sys.executable, "-c", child])

    sys.exit(run_script(sys.argv[1:], "help", work))
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

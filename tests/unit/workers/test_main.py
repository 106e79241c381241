# SPDX-License-Identifier: BSD-3-Clause
"""The child process: what it reads, what the user sees of it, and how it ends."""

import subprocess
import sys
import textwrap

import pytest

from isaaclab_pc.launch.child_process import worker_command
from isaaclab_pc.workers import __main__ as workers


@pytest.mark.parametrize(
    ("behaviour", "code", "shown", "logged"),
    [
        ("raise ConfigError('no such field')", 2, "error: no such field\n", ""),
        ("raise RuntimeError('it broke')", 1, "", "RuntimeError: it broke"),
        ("raise SystemExit(1)", 1, "", ""),
        ("signal.raise_signal(signal.SIGINT)", 130, "", ""),
        (
            "print('chatter'); os.system('echo native'); screen.say('progress'); return 0",
            0,
            "progress\n",
            "native",
        ),
        ("current().say('watch here'); return 0", 0, "watch here\n", ""),
    ],
)
def test_the_user_sees_progress_and_errors_while_chatter_goes_to_the_log(run, behaviour, code, shown, logged):
    driver = f"""
        import os, signal, sys
        from isaaclab_pc.errors import ConfigError
        from isaaclab_pc.terminal.screen import current
        from isaaclab_pc.workers import __main__ as workers
        def train(args, screen):
            {behaviour}
        workers.MODES["train"] = train
        sys.exit(workers.main(["train", {str(run)!r}]))
    """
    command = [sys.executable, "-c", textwrap.dedent(driver)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, shown, "")
    assert logged in (run.parent / "worker.log").read_text(encoding="utf-8")


OPTIONS = {
    "train": {"checkpoint": "a.pt"},
    "play": {"checkpoint": "a.pt"},
    "export": {"checkpoint": "a.pt"},
    "probe": {"num_envs": 8, "result": "a.json"},
    "plan": {"num_envs": 8, "result": "a.json"},
    "check": {"result": "a.json"},
    "demo": {"file": "a.hdf5", "episodes": 3, "keep": "all"},
    "replay": {"dump": "a.npz", "position": 1, "result": "a.json"},
    "view": {"policy": "random", "record": "a.rrd", "steps": 5, "port": 8080, "color": "height"},
    "stability": {"values": '{"decimation": 2}', "log": "a.log", "result": "a.json"},
}
"""What the parent gives each mode."""


@pytest.mark.parametrize(("mode", "options"), OPTIONS.items())
def test_every_mode_takes_the_options_that_its_parent_gives(mode, options, tmp_path):
    command = worker_command(mode, tmp_path / "config.yaml", **options)
    args = workers._parser().parse_args(command[4:])
    assert (args.mode, args.settings) == (mode, tmp_path / "config.yaml")
    given = {name: value for name, value in vars(args).items() if value is not None}
    assert {name: str(given[name]) for name in options if name != "values"} == {
        name: str(value) for name, value in options.items() if name != "values"
    }
    assert "values" not in options or args.values == {"decimation": 2}
    assert set(given) == {"mode", "settings", *options}


def test_all_modes_are_tested_above():
    assert set(workers.MODES) == set(OPTIONS)


def test_a_replay_that_is_refused_tells_the_user_why_and_leaves_no_result(tmp_path):
    result = tmp_path / "result.json"
    driver = """
        import sys
        from isaaclab_pc.errors import ConfigError
        from isaaclab_pc.workers import __main__ as workers
        def replay(args, stream):
            raise ConfigError("the dump is of another scene")
        workers.MODES["replay"] = replay
        sys.exit(workers.main(sys.argv[1:]))
    """
    arguments = worker_command("replay", tmp_path / "config.yaml", dump="a.npz", position=0, result=result)[4:]
    command = [sys.executable, "-c", textwrap.dedent(driver), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "error: the dump is of another scene\n")
    assert not result.exists()

# SPDX-License-Identifier: BSD-3-Clause
"""What a user, a log and a program see of the same events."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
import textwrap
import time
from pathlib import Path

import pytest

from isaaclab_pc.launch.child_process import run_child, run_script
from isaaclab_pc.terminal import screen as screens
from isaaclab_pc.terminal.durations import KEPT, Durations
from isaaclab_pc.terminal.events import (
    End,
    Evaluated,
    Iteration,
    Memory,
    Phase,
    Trials,
    Warned,
    event_schema,
    read_event,
    to_line,
)
from isaaclab_pc.terminal.live import LiveScreen
from isaaclab_pc.terminal.screen import JsonScreen, Lines, Wire, current, use

METRICS = {"Perf/total_fps": 812.4, "mean_reward": 1.25, "success_rate": 0.5, "collect_s": 1.0, "learn_s": 2.0}


def iteration(number=1, **changes):
    return Iteration(**{"iteration": number, "max_iterations": 10, "eta_s": 180.0, "metrics": METRICS, **changes})


def trials(**changes):
    """A search of twenty trials, of which three have ended."""
    fields = {"trials": 20, "ended": 3, "failed": 1, "running": {"004": 5}, "best": "001", "score": 0.875}
    return Trials(max_iterations=90, metric="success_rate", **(fields | changes))


@pytest.fixture
def kept(tmp_path):
    return Durations(tmp_path / "cache")


def lines_of(screen_events, **options):
    stream = io.StringIO()
    screen = Lines(stream, **options)
    screen_events(screen)
    return stream.getvalue().splitlines()


# Plain lines


def test_a_pipe_gets_one_line_per_iteration_and_troubles_only_where_there_are_some():
    numbers = "812 steps/s  reward 1.25  success 50 %  collect 1.00 s  learn 2.00 s"

    def events(screen):
        screen.show(iteration())
        screen.show(iteration(2, metrics={}))
        screen.show(iteration(3, guard={"action": 2, "joint_velocity": 1}, restarts=1))

    assert lines_of(events) == [
        f"iteration  1/10  ETA 0:03:00  {numbers}",
        "iteration  2/10  ETA 0:03:00  - steps/s  reward -  success - %  collect - s  learn - s",
        f"iteration  3/10  ETA 0:03:00  {numbers}  guard 3  restarts 1",
    ]


def test_a_pipe_hears_of_a_searchs_trials_where_more_than_their_iterations_changed():
    def events(screen):
        for iterations in (5, 6, 7):
            screen.show(trials(running={"004": iterations}))
        screen.show(trials(ended=4, running={}, best=None, score=None, failed=0))

    assert lines_of(events) == [
        "trials 3/20 ended  1 running  1 failed  best so far 001: success_rate 0.875",
        "trials 4/20 ended  0 running",
    ]
    assert lines_of(events, quiet=True) == []


def test_quiet_shows_decisions_warnings_the_result_and_what_was_made():
    def events(screen):
        screen.begin("build", "building 8 environments")
        screen.say("a note")
        screen.show(iteration())
        screen.decide("num_envs=64: the largest that fits", num_envs=64)
        screen.warn("warning: too many threads")
        screen.show(Evaluated(text="checkpoint 5: success 40 %", iteration=5))
        screen.show(Evaluated(text="success 90 %"))
        screen.made("run", Path("logs/a"))
        screen.fail("it broke")
        screen.close(1)

    text = ["num_envs=64: the largest that fits", "warning: too many threads", "success 90 %", "run: logs/a"]
    stream = io.StringIO()
    events(Lines(stream, quiet=True))
    assert stream.getvalue().splitlines() == [*text, "error: it broke"]


def test_a_phase_that_takes_long_says_so_now_and_then(monkeypatch):
    monkeypatch.setattr(screens, "RUNNING_SECONDS", 0.05)
    stream = io.StringIO()
    screen = Lines(stream)
    screen.begin("search", "trying sizes")
    _until(lambda: len(re.findall(r"search: \d:\d\d:\d\d so far\n", stream.getvalue())) >= 2)
    screen.end_phase()
    shown = stream.getvalue()
    time.sleep(0.15)
    assert stream.getvalue() == shown


def test_a_phase_says_how_far_it_has_come(monkeypatch):
    monkeypatch.setattr(screens, "RUNNING_SECONDS", 0.05)
    wire, stream = io.StringIO(), io.StringIO()
    child, parent = Wire(wire), Lines(stream)
    parent.begin("build")
    child.begin("evaluate")
    for step in range(100):
        child.advance(120 + step, 330)
    for line in wire.getvalue().split("\n")[:-1]:
        parent.receive(line)
    assert wire.getvalue().count("running") <= 3, "not at every step"
    _until(lambda: re.search(r"evaluate: \d:\d\d:\d\d so far, step 120 of 330\n", stream.getvalue()))
    parent.begin("train")
    _until(lambda: re.search(r"train: \d:\d\d:\d\d so far\n", stream.getvalue()))


def test_what_a_phase_usually_takes_is_said_from_its_second_time_on(kept):
    def events(screen):
        screen.about = "reach"
        screen.begin("build", "building")
        screen.begin("train")
        screen.end_phase()

    assert lines_of(events, durations=kept) == ["building"]
    assert lines_of(events, durations=kept) == ["building, usually 0:00:00 here"]


def test_a_phase_that_was_cut_short_is_not_remembered(kept):
    def events(screen):
        screen.begin("build", "building")
        screen.end_phase(well=False)

    assert lines_of(events, durations=kept) == lines_of(events, durations=kept) == ["building"]


def test_the_last_few_times_count_and_a_damaged_file_is_none(kept, tmp_path):
    for seconds in (1000.0, 1.0, 2.0, 30.0, 4.0, 5.0):
        kept.add("build", seconds)
    assert KEPT == 5
    assert kept.usual("build") == 4.0
    assert kept.usual("search") is None
    (tmp_path / "cache" / "durations.json").write_text('{"seconds": {"build": [-1]}}', encoding="utf-8")
    assert kept.usual("build") is None
    kept.add("build", 7.0)
    assert kept.usual("build") == 7.0


def test_a_closed_pipe_ends_nothing():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        Lines(stream).say("lost")
        Lines(stream).show(iteration())
        # Python would complain about what is left in its buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# Programs


def test_json_has_one_event_a_line_and_ends_with_the_exit_code(kept, capsys):
    stream = io.StringIO()
    screen = JsonScreen(stream, kept)
    screen.begin("build", "building")
    screen.begin("train")
    screen.say("a note")
    memory = Memory(host_bytes=1, host_limit=2)
    screen.show(iteration(memory=memory))
    screen.warn("warning: too many threads")
    screen.decide("chosen", num_envs=64)
    screen.show(Evaluated(text="success 90 %", result={"episodes": 8}))
    screen.made("run", Path("logs/a"))
    screen.fail("it broke")
    screen.close(1)
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["kind"] for event in events] == [
        *("phase", "phase", "phase", "iteration", "warning", "decision", "evaluation", "phase", "end")
    ]
    assert [(event["phase"], event["state"]) for event in events if event["kind"] == "phase"] == [
        *(("build", "begin"), ("build", "end"), ("train", "begin"), ("train", "end"))
    ]
    assert events[3]["metrics"] == METRICS
    assert events[3]["memory"] == {"host_bytes": 1, "host_limit": 2, "device_bytes": None, "device_limit": None}
    assert events[4]["text"] == "too many threads"
    assert events[5]["values"] == {"num_envs": 64}
    assert events[-1] == {"kind": "end", "exit_code": 1, "error": "it broke", "files": {"run": ["logs/a"]}}
    assert capsys.readouterr().err == "a note\nrun: logs/a\nerror: it broke\n"
    for line in stream.getvalue().splitlines():
        assert to_line(read_event(line)) == line


def test_every_field_of_an_event_is_in_the_docs():
    page = Path(__file__).parents[3].joinpath("docs", "reading-output.md").read_text(encoding="utf-8")
    schema = event_schema()["$defs"]
    fields = {f"`{field}`" for kind in schema.values() for field in kind["properties"] if field != "kind"}
    kinds = {f"`{kind['properties']['kind']['const']}`" for kind in schema.values() if "kind" in kind["properties"]}
    assert {name for name in fields | kinds if name not in page} == set()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Invalid JSON"),
        ("{}", "Unable to extract tag"),
        ('{"kind": "end"}', "exit_code"),
        ('{"kind": "warning", "text": 1}', "valid string"),
        ("[" * 100_000, "Invalid JSON"),
    ],
)
def test_what_is_no_event_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        read_event(text)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Keep the times of the tests' phases out of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))


def test_with_json_a_script_and_its_children_print_nothing_else_to_standard_output(capfd):
    child = textwrap.dedent("""
        import sys
        from isaaclab_pc.terminal.screen import Wire
        wire = Wire(sys.stdout)
        wire.begin("train")
        print("chatter", flush=True)
        wire.warn("warning: hot")
    """)

    def work(arguments):
        assert arguments == ["seed=1"]
        print("a print")
        os.write(1, b"native\n")
        current().begin("build", "building")
        return run_child([sys.executable, "-c", child])

    assert run_script(["--json", "seed=1"], "help", work) == 0
    shown = capfd.readouterr()
    events = [read_event(line) for line in shown.out.splitlines()]
    assert [event.kind for event in events] == ["phase", "phase", "phase", "warning", "phase", "end"]
    assert sorted(shown.err.splitlines()) == ["a print", "chatter", "native"]
    # Standard output is what it was.
    print("after")
    assert capfd.readouterr().out == "after\n"


def test_the_last_event_has_the_exit_code_of_a_script_that_was_stopped(capfd):
    def work(_):
        raise SystemExit(128 + signal.SIGTERM)

    assert run_script(["--json"], "help", work, when_stopped=75) == 75
    event = read_event(capfd.readouterr().out)
    assert isinstance(event, End)
    assert event.exit_code == 75
    assert run_script(["--json"], "help", work) == 143


def test_the_output_is_asked_for_in_one_way(capsys):
    assert run_script(["--json", "quiet=true"], "help", len) == 2
    assert "give one of them" in capsys.readouterr().err
    assert run_script(["quiet=maybe"], "help", len) == 2
    assert "quiet" in capsys.readouterr().err
    assert run_script(["--help"], "help", len) == 0
    assert "--json" in capsys.readouterr().out


# From a child


def test_what_a_child_shows_arrives_as_what_it_is():
    wire, stream = io.StringIO(), io.StringIO()
    child = Wire(wire)
    child.begin("train")
    child.show(iteration())
    child.say("a line\nand another")
    child.warn("warning: hot")
    child.fail("it broke")
    parent = Lines(stream)
    parent.begin("build", "building")
    for line in wire.getvalue().split("\n")[:-1]:
        parent.receive(line)
    parent.close(1)
    shown = stream.getvalue().splitlines()
    assert shown[0] == "building"
    assert shown[1].startswith("iteration  1/10")
    assert shown[2:] == ["a line", "and another", "warning: hot", "error: it broke"]


def test_a_child_that_is_no_worker_of_ours_is_passed_on_even_where_it_writes_what_is_no_event(capsys):
    with use(Lines()):
        assert run_child([sys.executable, "-c", "print('\\x1e{}'); print('last', end='')"]) == 0
    assert capsys.readouterr().out == "\x1e{}\nlast\n"


# A terminal


def terminal(columns):
    """Open a pseudo-terminal of a width."""
    parent, child = pty.openpty()
    resize(child, columns)
    return parent, child


def resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def read_to_end(terminal: int) -> str:
    """Read a pseudo-terminal whose other side is closed: what was written arrives in pieces, then EIO."""
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while piece := file.read(65536):
            shown += piece
    return shown.decode()


def without_escapes(shown: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown).splitlines()]


def test_a_terminal_shows_how_many_trials_have_ended_which_run_and_the_best():
    parent, child = terminal(100)
    with os.fdopen(child, "w", encoding="utf-8") as stream:
        screen = LiveScreen(stream)
        screen.begin("tune", "20 trials of 90 iterations")
        screen.show(trials())
        screen.show(trials(running={f"{number:03d}": 5 for number in range(8)}))
        screen.close()
    text = " ".join(without_escapes(read_to_end(parent)))
    for part in ("tune  0:00:0", "trials 3/20 ended", "best so far 001: success_rate 0.875", "running 004 at 5/90"):
        assert part in text, part
    assert "005 at 5/90 and 2 more" in text


@pytest.mark.parametrize("columns", [0, 40, 100])
def test_a_terminal_shows_the_phase_and_the_last_iteration_and_keeps_messages(columns):
    parent, child = terminal(columns)
    with os.fdopen(child, "w", encoding="utf-8") as stream:
        screen = LiveScreen(stream)
        screen.begin("train")
        memory = Memory(host_bytes=1 << 30, host_limit=4 << 30)
        metrics = {**METRICS, "Perf/env_fps": 2000.0, "Perf/inference_fps": 1636.0}
        screen.show(iteration(guard={"action": 2}, restarts=1, memory=memory, metrics=metrics))
        screen.say("checkpoint [1]")
        screen.close()
    lines = without_escapes(read_to_end(parent))
    text = " ".join(lines)
    # What stays is the terminal's to wrap.
    assert max(len(line) for line in lines if not line.startswith("iteration  1/10")) <= (columns or 80)
    assert "checkpoint [1]" in lines
    for part in (
        "iteration 1/10",
        "reward 1.25 success 50 %",
        "ETA 0:03:00",
        "environment 2000",
        "with inference 1636",
        "memory 1.0 of 4.0 GiB",
    ):
        assert part in re.sub(r"\s+", " ", text)
    assert "restarts 1" in re.sub(r"\s+", " ", text)


def test_a_foot_is_never_wider_than_the_window_is_now():
    parent, child = terminal(100)
    with os.fdopen(child, "w", encoding="utf-8") as stream:
        screen = LiveScreen(stream)
        screen.begin("train")
        screen.show(iteration())
        resize(child, 40)
        screen.show(iteration(2))
        screen.say("narrower")
        screen.show(iteration(3))
        screen.close()
    wide, _, narrow = read_to_end(parent).partition("narrower")
    assert max(map(len, without_escapes(wide))) > 40
    shown = [line for line in without_escapes(narrow) if not line.startswith("iteration  3/10")]
    assert "learn 2.00 s" in " ".join(shown)
    assert max(map(len, shown)) <= 40


def test_a_terminal_of_few_letters_gets_no_others():
    parent, child = terminal(80)
    with os.fdopen(child, "w", encoding="iso-8859-1") as stream:
        screen = LiveScreen(stream)
        screen.begin("train")
        screen.show(iteration())
        screen.close()
    assert "iteration 1/10" in read_to_end(parent)


def test_on_a_terminal_the_clock_of_a_phase_moves_though_nothing_happens(kept):
    parent, child = terminal(80)
    shown = b""

    def clock_moved():
        nonlocal shown
        shown += os.read(parent, 65536)
        return len(set(re.findall(rb"search  \d:\d\d:\d\d", shown))) >= 2

    with os.fdopen(child, "w", encoding="utf-8") as stream:
        screen = LiveScreen(stream, kept)
        screen.begin("search", "trying sizes")
        _until(clock_moved)
        screen.close()
    text = shown.decode() + read_to_end(parent)
    assert "trying sizes" in text
    assert "usually" not in text


def test_a_terminal_that_closes_ends_nothing():
    parent, child = terminal(80)
    # What is left in its buffer is lost when it is closed.
    with contextlib.suppress(OSError), os.fdopen(child, "w", encoding="utf-8") as stream:
        screen = LiveScreen(stream)
        screen.begin("train")
        os.close(parent)
        screen.show(iteration())
        screen.say("lost")
        screen.close()


def _until(condition):
    end = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_warning_is_an_event_of_its_own():
    assert read_event(to_line(Warned(text="hot"))) == Warned(text="hot")
    assert read_event(to_line(Phase(phase="build"))) == Phase(phase="build")

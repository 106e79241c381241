# SPDX-License-Identifier: BSD-3-Clause
"""The same events for a user, a log and a program."""

import io
import json
import os
import re
import signal
import sys
import textwrap
import time
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from rich.table import Table

from isaaclab_pc.cli.script import script
from isaaclab_pc.processes.child_process import run_child
from isaaclab_pc.terminal import screen as screens
from isaaclab_pc.terminal.events import (
    End,
    Evaluated,
    Event,
    read_event,
    to_line,
)
from isaaclab_pc.terminal.screen import JsonScreen, Lines, Wire, current, use
from isaaclab_pc.terminal.tables import table_console
from tests.unit.terminal.shown import METRICS, iteration
from tests.waiting import wait_until


def lines_of(screen_events):
    stream = io.StringIO()
    screen = Lines(stream)
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


def test_a_phase_that_takes_long_says_so_now_and_then(monkeypatch):
    monkeypatch.setattr(screens, "RUNNING_SECONDS", 0.05)
    stream = io.StringIO()
    screen = Lines(stream)
    screen.begin("search", "trying sizes")
    wait_until(lambda: len(re.findall(r"search: \d:\d\d:\d\d ", stream.getvalue())) >= 2)
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
    wait_until(lambda: re.search(r"evaluate: \d:\d\d:\d\d so far, step 120 of 330\n", stream.getvalue()))
    parent.begin("train")
    wait_until(lambda: re.search(r"train: \d:\d\d:\d\d so far\n", stream.getvalue()))


# Programs


def test_json_has_one_event_a_line_and_ends_with_the_exit_code(capsys):
    stream = io.StringIO()
    screen = JsonScreen(stream)
    screen.begin("build", "building")
    screen.begin("train")
    screen.say("a note")
    screen.show(iteration())
    screen.warn("warning: hot")
    screen.decide("chosen", num_envs=64)
    screen.show(Evaluated(text="success 90%", result={"episodes": 8}))
    screen.made("run", Path("logs/a"))
    screen.fail("broken")
    screen.close(1)
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["kind"] for event in events] == [
        *("phase", "phase", "phase", "iteration", "warning", "decision", "evaluation", "phase", "end")
    ]
    assert [(event["phase"], event["state"]) for event in events if event["kind"] == "phase"] == [
        *(("build", "begin"), ("build", "end"), ("train", "begin"), ("train", "end"))
    ]
    assert events[3]["metrics"] == METRICS
    assert events[4]["text"] == "hot"
    assert events[5]["values"] == {"num_envs": 64}
    assert events[-1] == {"kind": "end", "exit_code": 1, "error": "broken", "files": {"run": ["logs/a"]}}
    assert capsys.readouterr().err.splitlines() == ["a note", "run: logs/a", "error: broken"]
    for line in stream.getvalue().splitlines():
        assert to_line(read_event(line)) == line


def test_every_field_of_an_event_is_in_the_docs():
    page = Path(__file__).parents[3].joinpath("docs", "reading-output.md").read_text(encoding="utf-8")
    names = {field.name for event in get_args(Event) for field in fields(event)}
    kinds = {event.kind for event in get_args(Event)}
    assert {name for name in names | kinds if f"`{name}`" not in page} == set()


NO_EVENTS = ("", "{}", '{"kind": "end"}', '{"kind": "warning", "text": 1}', pytest.param("[" * 100_000, id="deep"))


@pytest.mark.parametrize("text", NO_EVENTS)
def test_what_is_no_event_is_refused(text):
    with pytest.raises(ValueError, match="validation error"):
        read_event(text)


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

    assert script("help")(work)(["--json", "seed=1"]) == 0
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

    assert script("help", when_stopped=75)(work)(["--json"]) == 75
    event = read_event(capfd.readouterr().out)
    assert isinstance(event, End)
    assert event.exit_code == 75
    assert script("help")(work)(["--json"]) == 143


def test_every_help_page_tells_of_the_output_for_programs(capsys):
    assert script("help")(len)(["--help"]) == 0
    assert "--json" in capsys.readouterr().out


# From a child


def test_what_a_child_shows_arrives_as_what_it_is():
    wire, stream = io.StringIO(), io.StringIO()
    child = Wire(wire)
    child.begin("train")
    child.show(iteration())
    child.say("a line\nand another")
    child.warn("warning: hot")
    child.fail("broken")
    parent = Lines(stream)
    parent.begin("build", "building")
    for line in wire.getvalue().split("\n")[:-1]:
        parent.receive(line)
    parent.close(1)
    first, second, *others = stream.getvalue().splitlines()
    assert (first, second.split()[:2]) == ("building", ["iteration", "1/10"])
    assert others == ["a line", "and another", "warning: hot", "error: broken"]


def test_a_child_that_is_no_worker_of_ours_is_passed_on_even_where_it_writes_what_is_no_event(capsys):
    with use(Lines()):
        assert run_child([sys.executable, "-c", "print('\\x1e{}'); print('last', end='')"]) == 0
    assert capsys.readouterr().out == "\x1e{}\nlast\n"


# Tables


@pytest.mark.parametrize("text", ["[wrist,front]", "old[/x]", "a:cat:b", "[bold]x[/bold]"])
def test_titles_headings_and_cells_are_shown_as_they_are(text):
    table = Table(title=f"title {text}")
    table.add_column(f"heading {text}")
    table.add_row(f"cell {text}")
    shown = io.StringIO()
    table_console(80, shown).print(table)
    assert all(f"{place} {text}" in shown.getvalue() for place in ("title", "heading", "cell"))

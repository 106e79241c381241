# SPDX-License-Identifier: BSD-3-Clause
"""The page, read back as a person would see it, of healthy folders and of odd ones."""

import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest

from isaaclab_pc.cli.command_line import parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.report.drawing import INK, SERIES
from isaaclab_pc.report.films import add_films
from isaaclab_pc.report.page import comparison_page, run_page
from isaaclab_pc.report.read_run import read_run, read_runs
from isaaclab_pc.report.run_tables import commands, differences
from isaaclab_pc.report.words import NOTHING
from isaaclab_pc.supervise.supervisor import add_event
from tests.unit.report.run_folder import ITERATIONS, STEPS, TRIALS, edit, make_faulty, make_film, make_run

FIGURES = {
    *("success-steps", "success-time", "return-steps", "return-time", "rewards", "learning-0", "fps", "split"),
    *("memory-host", "trials"),
    *("seen-first", "seen-last", "seen-success", "seen-failure"),
}
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


class Reader(HTMLParser):
    """Text, figures with their tables, links, ids and tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tables: dict[str, list[list[str]]] = {}
        self.svg_texts: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self._figure = ""
        self._cell: list[str] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        self.links += [values[name] for name in ("href", "src", "xlink:href") if name in values]
        if tag == "figure":
            self._figure = values["id"].removeprefix("figure-")
            self.tables[self._figure], self.svg_texts[self._figure] = [], []
        if tag == "tr" and self._figure:
            self.tables[self._figure].append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, "tags are nested"
        if tag == "figure":
            self._figure = ""
        if tag in ("td", "th") and self._cell is not None:
            if self._figure:
                self.tables[self._figure][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data):
        self.text += data
        if self._cell is not None:
            self._cell.append(data)
        if self._figure and self.open[-1] == "text":
            self.svg_texts[self._figure].append(data)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "2026-01-02_03-04-05", "points.num_points=64").folder


@pytest.fixture(scope="module")
def html(good) -> str:
    return run_page(good)


@pytest.fixture(scope="module")
def page(html) -> Reader:
    return Reader(html)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> Reader:
    return Reader(run_page(make_faulty(tmp_path_factory.mktemp("runs") / "faulty").folder))


def rows(page: Reader, figure: str) -> list[list[str]]:
    return page.tables[figure][1:]


def missing(page: Reader, *texts: str) -> list[str]:
    return [text for text in texts if text not in page.text]


def test_every_figure_is_there_as_a_picture_with_text(page):
    assert set(page.tables) == FIGURES
    assert all(page.svg_texts.values())
    assert "environment steps" in page.svg_texts["success-steps"]
    assert "budget, 1.5 GiB" in page.svg_texts["trials"]


def test_the_numbers_beside_the_curves_are_those_of_the_run(page):
    steps = [str(STEPS * i) if STEPS * i < 1000 else f"{STEPS * i:,}" for i in range(1, ITERATIONS + 1)]
    returns = [["return", s, f"{10 * i + 0.25:.4g}"] for i, s in enumerate(steps, start=1)]
    assert rows(page, "return-steps") == returns
    assert rows(page, "split") == [[name, s, y] for name, y in (("rollout", "1.5"), ("update", "0.5")) for s in steps]
    speeds = {"environment": 1024, "with inference": 768, "with the update": 512}
    found = [[name, s, float(y.replace(",", ""))] for name, s, y in rows(page, "fps")]
    assert found == [[name, s, y + i] for name, y in speeds.items() for i, s in enumerate(steps, start=1)]
    training = [row for row in rows(page, "success-steps") if row[0] == "in training"]
    assert [row[1] for row in training] == steps
    assert [row[2] for row in training[1:]] == [str(10 * i) for i in range(2, ITERATIONS + 1)]
    assert not training[0][2].isdigit(), "an iteration in which no episode ended has no success rate"


def test_evaluations_memory_and_trials_stand_beside_their_pictures(page):
    evaluated = [*rows(page, "success-steps")[-2:], rows(page, "success-time")[-1]]
    assert [row[1:3] for row in evaluated] == [["3,072", "96"], ["6,144", "96"], ["14", "96"]]
    assert {tuple(row[3].split(" to ")) for row in evaluated} == {("92.3", "98")}
    in_use = [["in use", str(2 * i), f"{(1000 + i) / 1024:.4g}"] for i in range(1, ITERATIONS + 1)]
    assert rows(page, "memory-host")[:ITERATIONS] == in_use
    assert rows(page, "memory-host")[-1] == ["budget", str(2 * ITERATIONS), f"{1500 / 1024:.4g}"]
    trials = [[str(trial.num_envs), trial.outcome.replace("_", " ")] for trial in TRIALS]
    assert [row[:2] for row in rows(page, "trials")] == trials
    assert [row[3] for row in rows(page, "trials")] == ["932", "964", "1,028", NOTHING]
    ledger = "".join(page.text.partition("by purpose")[2].split())
    assert "sum1.1GiBbudget1.5GiB" in ledger


def test_what_the_policy_saw_is_there_as_pictures(html, page):
    for name, clouds in (("first", 2), ("success", 8), ("failure", 5)):
        film = html.partition(f'<figure id="figure-seen-{name}">')[2].partition("</figure>")[0]
        assert film.count("data:image/png;base64,") == clouds
        assert re.search(f'aria-label="[^"]*After iteration {ITERATIONS}[.]', film)
    assert page.svg_texts["seen-success"] == [f"{i / 2:.2f} s" for i in range(8)]


def test_depth_images_are_shown_too(tmp_path):
    folder = make_run(tmp_path / "run", "obs=depth").folder
    add_films(folder, {"first": None, "last": None, "success": make_film(2, depth=True), "failure": None})
    page = Reader(run_page(folder))
    assert missing(page, "0.10 m", "1.10 m") == []
    assert [name for name in page.tables if name.startswith("seen")] == ["seen-success"]


def test_result_settings_and_commands_are_said(good, page):
    assert missing(page, "96.0 %", "92.3 to 98.0", "64.85", "0.63 s", "target_x", "completed", "1.2 GiB") == []
    changed = page.text.partition("Settings that differ")[2].partition("settings with their defaults")[0]
    assert "points.num_points" in changed
    assert "guard.mode" not in changed
    shown = (
        f"scripts/play.py resume={good}",
        f"scripts/play.py resume={good}/checkpoints/model_3.pt",
        f"scripts/train.py resume={good} max_iterations=12",
        f"scripts/report.py {good}",
    )
    assert missing(page, *shown) == []
    assert re.search(r"scripts/train.py task=reach .*points.num_points=64 .*seed=43", page.text)


@pytest.mark.parametrize(("config", "is_said"), [("obs: points", True), ("sim: {}", False)])
def test_a_task_of_another_package_has_no_setting_that_only_ours_have(tmp_path, config, is_said):
    folder = make_run(tmp_path / "run").folder
    (folder / "params").mkdir()
    (folder / "params/env.yaml").write_text(f"{config}\n", encoding="utf-8")
    others = re.findall(r">([\w.]+)<", run_page(folder).partition("settings with their defaults")[2])
    assert ("obs" in others, "robot" in others) == (is_said, is_said)
    assert "guard.mode" in others


def test_the_same_settings_again_are_the_same(tmp_path):
    settings = ["physics.dt=0.00833333333", "points.crop=[[0.12345678,1.0],[-1.0,1.0],[0.0,1.23456789]]"]
    run = read_run(make_run(tmp_path / "run", *settings).folder)
    again = next(command for purpose, command in commands(run) if "another seed" in purpose)
    parsed = parse_command(shlex.split(again)[2:])
    assert run.settings is not None
    assert compose(parsed.settings) == run.settings.with_values({"seed": run.settings.seed + 1})


def test_one_whole_file_loads_nothing_and_runs_nothing(html, page):
    assert "script" not in page.tags
    assert [link for link in page.links if not link.startswith(("#", "data:"))] == []
    assert re.findall(r"https?://|url\((?!#)|@import", html) == []
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert page.open == [], "all tags are closed"


def test_colours_follow_the_theme(html):
    style, _, body = html.partition("</style>")
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", body))
    assert {"--ink", "--series-1"} <= used
    dark = style.partition("prefers-color-scheme: dark")[2]
    assert all(f"{name}:" in style and f"{name}:" in dark for name in used)
    assert not re.search("|".join((INK, *SERIES)), body), "a colour of the light theme is left"


def test_faults_dumps_and_restarts_are_said(faulty):
    assert rows(faulty, "guard-rate")[-1] == ["faults", "7,168", "300"]
    failures = ("environment 3, step 77: joint_velocity", "environment 5, step 77: action, joint_velocity")
    told = ("<b>faults</b>", "2 updates", *failures, "num_envs=64 instead of 128", "killed by the kernel", "SIGTERM")
    assert missing(faulty, *told, "joint_velocity", "119", "seconds 31.4") == []
    assert re.search(r"scripts/replay.py dump=\S+/dumps/dump_0.npz", faulty.text)


def test_a_long_run_is_drawn_as_means(tmp_path):
    folder = make_run(tmp_path / "run").folder
    lines = (folder / "iterations.jsonl").read_text(encoding="utf-8").splitlines()
    long = [lines[0].replace('"iteration": 1,', f'"iteration": {i},') for i in range(1, 501)]
    (folder / "iterations.jsonl").write_text("\n".join(long), encoding="utf-8")
    page = Reader(run_page(folder))
    assert len(rows(page, "return-steps")) == 100
    assert "5 iterations" in page.text


def test_a_run_without_anything_but_its_record_is_a_page(tmp_path):
    folder = make_run(tmp_path / "run").folder
    for name in ("iterations.jsonl", "config.yaml", "seen.npz"):
        (folder / name).unlink()
    edit(folder, trials=[], evaluation=None, evaluations=[], checkpoints={})
    page = Reader(run_page(folder))
    assert page.tables == {}


def test_a_run_without_a_search_names_the_command_for_one(tmp_path):
    folder = make_run(tmp_path / "run", "obs=state", "eval.episodes=7", "points.num_points=64").folder
    edit(folder, trials=[], evaluation=None)
    page = Reader(run_page(folder))
    assert re.search(r"scripts/scale.py task=reach .*obs=state .*num_envs=128", page.text)

    edit(folder, earlier_search="2026-01-01 12:00", trials=[trial.to_dict() for trial in TRIALS])
    page = Reader(run_page(folder))
    assert "trials" in page.tables
    assert "by purpose" in page.text
    assert "2026-01-01 12:00" in page.text
    assert "scripts/scale.py" not in page.text


STRANGE = {
    "wall_s": math.inf,
    "task": "IsaacPC-<script>alert(1)</script>",
    "device": "$x_{1}$" * 100,
    "guard": {"$\\frac{1}": 10**30, "-": -5},
    "started": "0001-01-01T00:00:00",
    "ended": "9999-12-31T23:59:59+00:00",
    "contacts": {"share": "x"},
    "versions": {"a" * 9999: "b" * 9999},
    "peak_bytes": 10**400,
    "trials": [TRIALS[0].to_dict() | {"host_bytes": 10**400}],
    "max_iterations": 0,
    "harder_physics": {"dt": math.nan},
}


def test_values_that_nobody_expects_make_no_crash_and_no_code(tmp_path):
    folder = make_faulty(tmp_path / "run").folder
    edit(folder, **STRANGE)
    add_event(folder, "<script>", cause="<script>alert(2)</script>")
    names = ("$\\frac{x", "loss/\u0007\ud800", "Episode_Reward/<b>")
    odd = ", ".join(f'"{name}": 1e308' for name in names).replace("\\f", "\\\\f").encode("utf-8", "replace").decode()
    with (folder / "iterations.jsonl").open("a", encoding="utf-8") as file:
        file.write(f'{{"iteration": 9, "env_steps": 99999999999999999999, "wall_s": 1e300, "metrics": {{{odd}}}}}\n')
        file.write("\x00\xff{]\n")
    page = Reader(run_page(folder))
    assert missing(page, "alert(1)", "alert(2)") == []
    assert "script" not in page.tags


# Several runs


def test_a_comparison_has_all_runs_in_every_table_and_figure(tmp_path):
    first = make_run(tmp_path / "a" / "run").folder
    second = make_run(tmp_path / "b" / "run", "points.num_points=64", "seed=7").folder
    third = make_faulty(tmp_path / "b" / "faulty").folder
    page = Reader(comparison_page(read_runs([first, second, third])))
    names = ["a/run", "b/run", "b/faulty"]
    assert {row[0] for row in rows(page, "mean_reward-steps")} == set(names)
    evaluated = [row for row in rows(page, "success_rate-time") if row[0] in names]
    assert [row[0] for row in evaluated] == [name for name in names for _ in ("in training", "at the end")]
    assert all(row[2:] == ["96", "92.3 to 98"] for row in evaluated)
    assert len(rows(page, "success_rate-time")) == len(evaluated) + 3 * ITERATIONS + 1
    assert missing(page, "points.num_points", "seed", "b/faulty: ") == []
    assert "max_iterations" not in page.text, "it is the same in all"
    assert len(page.ids) == len(set(page.ids))


def test_what_differs_is_told_with_all_its_digits_and_with_the_code_that_ran(tmp_path):
    for name, dt in (("a", "0.00833333"), ("b", "0.0083333333")):
        folder = make_run(tmp_path / name, f"physics.dt={dt}").folder
        edit(folder, git=f"commit {name}", versions={"torch": "2.0", name: "1.0"})
    assert differences(read_runs([tmp_path / name for name in ("a", "b")])) == [
        ("physics.dt", "0.00833333", "0.0083333333"),
        ("commit", "commit a", "commit b"),
        ("version of a", "1.0", NOTHING),
        ("version of b", NOTHING, "1.0"),
    ]


def test_a_run_beside_itself_has_two_names(tmp_path):
    folder = make_run(tmp_path / "run").folder
    assert [run.name for run in read_runs([folder, folder])] == ["run (1)", "run (2)"]

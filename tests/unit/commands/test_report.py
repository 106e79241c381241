# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/report.py``: which run, which file, and what is refused."""

import pytest

from isaaclab_pc.commands import report
from isaaclab_pc.commands.report import main
from tests.unit.report.run_folder import edit, make_run


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """The logs folder of an empty working folder, with runs that have nothing to draw: drawing takes a second."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs" / "rsl_rl"


def bare_run(folder, **fields):
    make_run(folder)
    (folder / "iterations.jsonl").unlink()
    edit(folder, trials=[], evaluation=None, evaluations=[], **fields)


def test_latest_is_the_newest_run_of_the_task(logs, capsys):
    bare_run(logs / "reach" / "b", started="2026-01-01T10:00:00+00:00")
    bare_run(logs / "reach" / "a", started="2026-01-02T10:00:00+00:00")
    bare_run(logs / "lift" / "c", started="2026-01-03T10:00:00+00:00")
    assert main(["run=latest"]) == 0
    assert main(["run=latest", "task=lift"]) == 0
    assert capsys.readouterr().out.split()[1::2] == [
        "logs/rsl_rl/reach/a/report.html",
        "logs/rsl_rl/lift/c/report.html",
    ]


def test_a_folder_or_its_record_names_a_run_and_out_the_folder(logs, tmp_path, capsys):
    bare_run(logs / "reach" / "one")
    assert main(["logs/rsl_rl/reach/one/run.json", "out=mine"]) == 0
    assert (tmp_path / "mine" / "report.html").is_file()
    assert not (logs / "reach" / "one" / "report.html").exists()
    assert main(["logs/rsl_rl/reach/one"]) == 0
    assert capsys.readouterr().out.endswith("report: logs/rsl_rl/reach/one/report.html\n")
    assert "reach" in (logs / "reach" / "one" / "report.html").read_text(encoding="utf-8")


def test_several_runs_are_one_page_of_their_own(logs, tmp_path, capsys):
    for name in ("one", "two"):
        make_run(logs / "reach" / name)
    assert main(["logs/rsl_rl/reach/one", "run=logs/rsl_rl/reach/two"]) == 0
    (page,) = (tmp_path / "logs" / "report").glob("*/report.html")
    assert capsys.readouterr().out.endswith(f"report: {page.relative_to(tmp_path)}\n")
    text = page.read_text(encoding="utf-8")
    assert all(name in text for name in ("one", "two"))


ONE = "logs/rsl_rl/lift/one"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "run=latest"),
        (["run=latest"], "run=latest logs/rsl_rl/reach"),
        (["logs/rsl_rl/lift/onne"], "run.json. logs/<runner>/<task>/<time>, latest."),
        (["logs/rsl_rl/lift"], "run.json. logs/<runner>/<task>/<time>, latest."),
        (["run=logs/rsl_rl/lift/two"], "run.json"),
        ([ONE, f"out={ONE}/run.json"], f"{ONE}/run.json"),
        ([ONE, "task=lift"], "task=lift run=latest"),
        (["x" * 3000], "xxx"),
        ([ONE, f"out={'x' * 3000}"], "xxx"),
        (["/dev/null"], "/dev/null"),
    ],
)
def test_what_holds_no_run_is_refused_with_the_next_step(logs, tmp_path, refused, arguments, words):
    bare_run(logs / "lift" / "one")
    (logs / "lift" / "two").mkdir()
    (logs / "lift" / "two" / "run.json").write_text("{", encoding="utf-8")
    refused(report, arguments, words)
    assert not (tmp_path / "logs" / "report").exists()

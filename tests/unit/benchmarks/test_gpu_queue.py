# SPDX-License-Identifier: BSD-3-Clause
"""The queue of what only a GPU can show: what is next, what counts as passed, and how packages get there."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, gpu_carry, gpu_queue
from isaaclab_pc.cli.command_line import parse_command

TEXT = gpu_queue.QUEUE.read_text(encoding="utf-8")
ITEMS = gpu_queue.read_queue(TEXT)
HEAD, BEFORE, OLD = "c" * 40, "b" * 40, "a" * 40
COMMITS = [HEAD, BEFORE]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_every_item_runs_programs_that_are_there_with_settings_that_there_are(item: gpu_queue.Item) -> None:
    assert item.commands
    assert item.checks
    assert 0 < item.minutes <= 12
    for command in item.commands:
        program, *rest = command.argv
        assert program == "-m" or Path(program).is_file()
        if "/scripts/" in program:
            assert rest[0] == "--json"
            assert parse_command(rest[1:]).given >= {"task", "device"}
        for path in (part for part in rest if "tests/" in part):
            assert Path(path).exists()
    assert {check.of for check in item.checks} - {""} <= {other.name for other in ITEMS}


def test_the_queue_is_in_the_order_of_what_matters_most() -> None:
    assert [item.name for item in ITEMS] == [str(number) for number in range(1, len(ITEMS) + 1)]
    first = [" ".join(command.argv) for item in ITEMS[:7] for command in item.commands]
    wanted = ("out_of_memory", "meter", "pytest", "first_step", "=1024", "=2048", "=4096", "12GiB", "12GiB", "memory")
    assert all(word in line for word, line in zip(wanted, first, strict=False))
    assert ITEMS[4].commands[0].neighbour == (10.0, 8.0)
    assert ITEMS[3].commands[0].argv == ITEMS[4].commands[0].argv


def test_limits_are_read_as_they_are_written() -> None:
    four, five = ITEMS[3].checks, ITEMS[4].checks
    assert gpu_queue.Check("budget_share", 0.93, 0.985) in four
    assert gpu_queue.Check("trials", most=4.0) in four
    assert gpu_queue.Check("num_envs", 0.97, 1.03, "4") in five


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        ([{"share": 0.93}], True),
        ([{"share": 0.92}], False),
        ([{"share": 0.95}, {"ms": 3}, {"share": 0.985}], True),
        ([{"share": 0.95}, {"share": 0.99}], False),
        ([{"share": None}], False),
        ([{}], False),
        ([], False),
    ],
)
def test_every_figure_has_to_be_within_its_limits_and_one_has_to_be_there(found: list[dict], passed: bool) -> None:
    assert gpu_queue.Check("share", 0.93, 0.985).holds(found) == passed


@pytest.mark.parametrize(
    ("num_envs", "earlier", "passed"),
    [(103, [100], True), (104, [100], False), (100, [50, 100], True), (100, [], False)],
)
def test_a_figure_is_compared_with_the_newest_of_another_item(num_envs: int, earlier: list[int], passed: bool) -> None:
    check = gpu_queue.Check("num_envs", 0.97, 1.03, "4")
    assert check.holds([{"num_envs": num_envs}], [{"num_envs": number} for number in earlier]) == passed


def result(item: str, state: str, commit: str) -> dict[str, Any]:
    return {"item": item, "state": state, "commit": commit, "commands": []}


@pytest.mark.parametrize(
    ("results", "first"),
    [
        ([], "1"),
        ([result("1", "passed", HEAD)], "2"),
        ([result("1", "passed", BEFORE)], "2"),
        ([result("1", "passed", OLD)], "1"),
        ([result("1", "failed", HEAD)], "2"),
        ([result("1", "failed", BEFORE)], "1"),
        ([result("1", "failed", BEFORE), result("1", "passed", HEAD)], "2"),
        ([result("2", "passed", HEAD)], "1"),
    ],
)
def test_the_next_item_is_the_first_without_a_result_of_these_commits(results: list[dict], first: str) -> None:
    known = gpu_queue.states(ITEMS, results, COMMITS)
    assert next(name for name, state in known.items() if not state) == first


def test_results_count_from_the_commit_that_the_queue_names() -> None:
    commits = gpu_queue.commits_since(TEXT)
    if not commits:
        pytest.skip("this copy has no repository")
    assert commits[-1].startswith("c3fad27")


QUEUE = """
Results count since commit `c3fad27`.

| | shows | commands | minutes | needs | passed |
|---|---|---|---:|---|---|
| 1 | it adds | `one.py` | 1 | | `sum` 3..3 |
| 2 | it adds less | `two.py` | 1 | 1 | `sum` within 50 % of 1 |
| 3 | it fails | `three.py` | 1 | | `sum` 1.. |
"""


def test_the_first_open_items_are_run_and_their_results_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, code in (("one", "print('{\"sum\": 3}')"), ("two", "print('{\"sum\": 1}')"), ("three", "1 / 0")):
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "queue.md").write_text(QUEUE)
    monkeypatch.setattr(gpu_queue, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_queue, "QUEUE", tmp_path / "queue.md")
    monkeypatch.setattr(gpu_queue, "commits_since", lambda text: COMMITS)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gpu, "machine", lambda device: {"card": device, "commit": "none"})

    out = tmp_path / "out"
    assert gpu.main(["--device", "cpu", "--next", "--out", str(out)]) == 0
    assert gpu.main(["--device", "cpu", "--next", "2", "--out", str(out)]) == 1
    assert gpu.main(["--device", "cpu", "--next", "--out", str(out)]) == 0
    kept = [json.loads(line) for line in (out / "gpu_queue.jsonl").read_text().splitlines()]
    assert [(one["item"], one["state"], one["missed"][-1:]) for one in kept] == [
        ("1", "passed", []),
        ("2", "failed", ["sum"]),
        ("3", "failed", ["sum"]),
    ]
    assert {one["commit"] for one in kept} == {HEAD}
    assert kept[0]["commands"][0]["result"] == {"sum": 3}
    assert "ZeroDivisionError" in kept[2]["commands"][0]["output"]


def test_every_package_that_is_carried_is_pinned() -> None:
    pinned = gpu_carry.pins(gpu_carry.PACKAGES, (gpu_carry.ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert len(pinned) == len(set(pinned)) == len(gpu_carry.PACKAGES)
    assert {"warp-lang", "newton", "isaaclab", "rsl-rl-lib"} <= set(gpu_carry.PACKAGES)
    assert "torch" not in gpu_carry.PACKAGES
    with pytest.raises(SystemExit, match="no-such-package"):
        gpu_carry.pins(["no-such-package"], "torch==1.0")


def test_parts_are_joined_as_they_were_and_a_damaged_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_carry, "PART_BYTES", 1000)
    content = bytes(range(256)) * 10
    (tmp_path / "whole").write_bytes(content)
    gpu_carry.split(tmp_path / "whole", tmp_path)
    assert [path.stat().st_size for path in sorted(tmp_path.glob("part-*"))] == [1000, 1000, 560]
    gpu_carry.join(tmp_path, tmp_path / "joined")
    assert hashlib.sha256((tmp_path / "joined").read_bytes()).digest() == hashlib.sha256(content).digest()

    (tmp_path / "part-00").write_bytes(b"damaged")
    (tmp_path / "part-02").unlink()
    with pytest.raises(SystemExit, match="part-00, part-02"):
        gpu_carry.join(tmp_path, tmp_path / "joined")


def test_what_nobody_needs_is_taken_out_of_a_wheel_and_of_its_list(tmp_path: Path) -> None:
    wheel = tmp_path / "warp-1-py3-none-any.whl"
    record = "warp/__init__.py,,\nwarp/bin/warp-clang.so,sha256=x,9\nwarp-1.dist-info/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, content in (("warp/__init__.py", ""), ("warp/bin/warp-clang.so", "large"), ("warp/bin/warp.so", "w")):
            file.writestr(name, content)
        file.writestr("warp-1.dist-info/RECORD", record)
    gpu_carry.slim(wheel)
    with zipfile.ZipFile(wheel) as file:
        assert sorted(file.namelist()) == ["warp-1.dist-info/RECORD", "warp/__init__.py", "warp/bin/warp.so"]
        assert "warp-clang" not in file.read("warp-1.dist-info/RECORD").decode()
    assert list(tmp_path.iterdir()) == [wheel]

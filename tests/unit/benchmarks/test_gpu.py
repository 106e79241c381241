# SPDX-License-Identifier: BSD-3-Clause
"""``make gpu`` without a GPU: what fails or is missing is a line of the report, and the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gpu


def _command(code: str, **options) -> gpu.Command:
    return gpu.Command("try", ("-c", code), **options)


def test_the_last_line_is_the_result(tmp_path: Path):
    outcome = gpu.run(_command("print('noise'); print('{\"ms\": 2.5}')"), tmp_path)
    assert (outcome.state, outcome.result, outcome.output) == ("passed", {"ms": 2.5}, "")


def test_the_end_of_what_a_failure_printed_is_kept(tmp_path: Path):
    outcome = gpu.run(_command("print('before'); raise SystemExit('no such card')"), tmp_path)
    assert outcome.state == "failed, exit code 1"
    assert outcome.output == "before\nno such card"


def test_what_takes_too_long_is_ended_and_said(tmp_path: Path):
    slow = "import time; print('began', flush=True); time.sleep(60)"
    outcome = gpu.run(_command(slow, seconds=1.0), tmp_path)
    assert outcome.state == "not done after 1 s"
    assert outcome.output == "began"


def test_a_package_that_is_missing_is_named(tmp_path: Path):
    outcome = gpu.run(_command("raise SystemExit('was run')", needs=("json", "no_such_package")), tmp_path)
    assert (outcome.state, outcome.output) == ("needs no_such_package", "")


def test_the_report_is_written_after_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def parts(*_) -> dict[str, list[gpu.Command]]:
        return {"good": [_command("print('{\"ms\": 1234.5}')")], "bad": [_command("raise SystemExit(3)")]}

    monkeypatch.setattr(gpu, "parts", parts)

    assert gpu.main(["--device", "cpu", "--out", str(tmp_path)]) == 1

    text = (tmp_path / "gpu-cpu.md").read_text(encoding="utf-8")
    assert "| ms | 1,234 |" in text
    assert "failed, exit code 3" in text
    record = json.loads((tmp_path / "gpu-cpu.json").read_text(encoding="utf-8"))
    assert record["parts"]["good"][0]["result"] == {"ms": 1234.5}


def test_every_part_runs_a_program_that_is_there(tmp_path: Path):
    for commands in gpu.parts("cuda:0", False, tmp_path).values():
        for command in commands:
            program = command.argv[0]
            assert program == "-m" or Path(program).is_file()

# SPDX-License-Identifier: BSD-3-Clause
"""``make gpu`` without a GPU: what fails or is missing is a line of the report, and the rest goes on."""

from __future__ import annotations

import json
import re
import time
import warnings
from pathlib import Path

import pytest

from benchmarks import gpu, gpu_measure


def _command(code: str, **options) -> gpu.Command:
    # Without site packages it begins at once on a busy machine, too; unbuffered, it prints in the order of the code.
    return gpu.Command("try", ("-I", "-S", "-u", "-c", code), **options)


def test_the_last_line_is_the_result(tmp_path: Path):
    outcome = gpu.run(_command("print('noise'); print('{\"ms\": 2.5}')"), tmp_path)
    assert (outcome.state, outcome.result, outcome.output) == ("passed", {"ms": 2.5}, "")


def test_the_end_of_what_a_failure_printed_is_kept(tmp_path: Path):
    outcome = gpu.run(_command("print('before'); raise SystemExit('nothing')"), tmp_path)
    assert outcome.state.startswith("failed")
    assert outcome.output.splitlines() == ["before", "nothing"]


def test_what_takes_too_long_is_ended_and_said_and_may_end_its_children(tmp_path: Path):
    tidy = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit('tidied up'))"
    slow = f"{tidy}; print('began'); time.sleep(60)"
    outcome = gpu.run(_command(slow, seconds=5.0), tmp_path)
    assert outcome.state.startswith("not done")
    assert outcome.output.splitlines() == ["began", "tidied up"]


def test_a_package_that_is_missing_is_named(tmp_path: Path):
    outcome = gpu.run(_command("raise SystemExit('was run')", needs=("json", "no_such_package")), tmp_path)
    assert (outcome.state, outcome.output) == ("needs no_such_package", "")


def test_the_report_is_written_after_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def parts(*_) -> dict[str, list[gpu.Command]]:
        return {"good": [_command("print('{\"ms\": 1234.5}')")], "bad": [_command("raise SystemExit(3)")]}

    monkeypatch.setattr(gpu, "parts", parts)
    monkeypatch.setattr(gpu, "SHARES", {"good": 1, "bad": 1})

    assert gpu.main(["--device", "cpu", "--out", str(tmp_path)]) == 1

    assert "1,234" in (tmp_path / "gpu-cpu.md").read_text(encoding="utf-8")
    record = json.loads((tmp_path / "gpu-cpu.json").read_text(encoding="utf-8"))
    assert record["parts"]["good"][0]["result"] == {"ms": 1234.5}
    assert record["parts"]["bad"][0]["state"].startswith("failed")


def test_what_there_is_no_time_for_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slow = _command("import time; time.sleep(60)")
    monkeypatch.setattr(gpu, "parts", lambda *_: {"rates": [slow, slow], "learning": [_command("print(1)")]})
    monkeypatch.setattr(gpu, "SHARES", {"rates": 1, "learning": 9})
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 0.5)

    start = time.monotonic()
    gpu.main(["--device", "cpu", "--out", str(tmp_path), "--minutes", "0.5"])
    assert time.monotonic() - start < 30

    assert re.search(r"^- rates: try$", (tmp_path / "gpu-cpu.md").read_text(encoding="utf-8"), re.MULTILINE)
    done = json.loads((tmp_path / "gpu-cpu.json").read_text())["parts"]
    assert [one["state"] for one in done["learning"]] == ["passed"]
    assert done["rates"][0]["state"].startswith("not done")
    assert done["rates"][1]["state"] == gpu.LEFT_OUT


def _script(monkeypatch: pytest.MonkeyPatch, root: Path, name: str, code: str) -> gpu.Command:
    """Return a script of another repository that does what a real one would."""
    monkeypatch.setattr(gpu, "ROOT", root)
    (root / "scripts").mkdir(exist_ok=True)
    (root / "scripts" / name).write_text(f"import json, pathlib\n{code}", encoding="utf-8")
    return gpu.Command("try", (str(root / "scripts" / name), "--json"))


def test_the_evaluation_at_the_end_counts_for_the_time_to_90_percent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from types import SimpleNamespace as Data

    from isaaclab_pc.run.record import RunRecord

    def reached(during: float, at_the_end: float) -> int | None:
        point = Data(wall_s=40.0, evaluation=Data(success_rate=during))
        evaluations = {"evaluations": [point], "evaluation": Data(success_rate=at_the_end)}
        memory = {"trials": [], "restarts": [], "device_peak_bytes": None}
        data = Data(**evaluations, **memory, wall_s=100.0, num_envs=8, env_steps=9)
        monkeypatch.setattr(RunRecord, "load", lambda _: Data(data=data))
        return gpu.learned(tmp_path)["seconds_to_90_percent"]

    (tmp_path / "logs" / "rsl_rl" / "reach" / "now").mkdir(parents=True)
    (tmp_path / "logs" / "rsl_rl" / "reach" / "now" / "run.json").touch()
    assert (reached(0.5, 0.95), reached(0.9, 0.95), reached(0.5, 0.8)) == (100, 40, None)


def test_a_training_that_fails_early_is_not_given_the_result_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "logs" / "rsl_rl" / "reach" / "before").mkdir(parents=True)
    (tmp_path / "logs" / "rsl_rl" / "reach" / "before" / "run.json").touch()
    outcome = gpu.run(_script(monkeypatch, tmp_path, "train.py", "raise SystemExit('no lift')"), tmp_path)
    assert outcome.result == {}
    assert outcome.output == "no lift"


SCALE = """
folder = pathlib.Path("logs/scale/reach/now")
folder.mkdir(parents=True)
both = {"outcome": "fits", "device_budget": 4 << 30, "device_meter": "card", "wall_seconds": 20.5}
trials = [{"num_envs": 8, "device_bytes": 2 << 30, **both}, {"num_envs": 16, "device_bytes": 3 << 30, **both}]
(folder / "trials.json").write_text(json.dumps({"trials": trials}))
(folder / "ledger.json").write_text(json.dumps({"num_envs": 8, "entries": [{"kind": "replay", "total": 1 << 30}]}))
print(json.dumps({"kind": "decision", "text": "num_envs=8"}))
print(json.dumps({"kind": "end", "exit_code": 0, "error": None, "files": {"picture": [str(folder / "memory.png")]}}))
"""


def test_a_search_is_told_in_numbers_and_against_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    free = iter([20 << 30, *[16 << 30] * 10_000])
    fake = type("Gpu", (), {"__init__": lambda self, device: None, "free": lambda self: next(free)})
    monkeypatch.setattr("isaaclab_pc.num_envs.gpu.Gpu", fake)
    outcome = gpu.run(_script(monkeypatch, tmp_path, "scale.py", SCALE), tmp_path, 60.0, "cuda:0")
    assert outcome.result == {
        "num_envs": 8,
        "sizes tried": "8, 16",
        "replay [GiB]": 1.0,
        "trials": 2,
        "search_seconds": 41.0,
        "GiB that the search metered, of the largest trial": 3.0,
        "device_bytes": 2 << 30,
        "budget_share": 0.5,
        "meter": "card",
        "complete": 1,
        "GiB that NVML saw, of all processes": 4.0,
    }


def test_a_recording_tells_how_the_expert_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from isaaclab_pc.demos.demo_file import DemoCounts, DemoFile

    monkeypatch.setattr(DemoFile, "progress", lambda _: DemoCounts(episodes=3, attempts=4, successes=3))
    end = 'print(json.dumps({"kind": "end", "exit_code": 0, "error": None, "files": {"demos": ["demos.hdf5"]}}))'
    outcome = gpu.run(_script(monkeypatch, tmp_path, "demo.py", end), tmp_path)
    assert outcome.result == {"episodes": 4, "successes": 3}


def test_every_part_has_a_share_of_the_time_and_runs_programs_that_are_there(tmp_path: Path):
    parts = gpu.parts("cuda:0", False, tmp_path)
    assert list(gpu.SHARES) == list(parts)
    for commands in parts.values():
        for command in commands:
            program = command.argv[0]
            assert program == "-m" or Path(program).is_file()


def test_a_wait_is_told_of_where_it_is(monkeypatch: pytest.MonkeyPatch):
    places = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: places.append(gpu_measure.place_of_warning()))
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
    assert [place.partition(":")[0] for place in places] == ["benchmarks/test_gpu.py"]

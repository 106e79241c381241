# SPDX-License-Identifier: BSD-3-Clause
"""The records that processes leave each other, apart from the trial, which has tests of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.num_envs.ledger import TrialsFile
from isaaclab_pc.num_envs.preflight import Plan
from isaaclab_pc.num_envs.profile import Answer, Doubt, Profile
from isaaclab_pc.num_envs.search import StopReason
from isaaclab_pc.num_envs.trial import MemoryReport, Outcome, Progress, TrainingPhase, Trial
from isaaclab_pc.utils.json_record import JsonRecord

RECORDS = [
    Progress(TrainingPhase.UPDATE, 64),
    Profile(
        *(64, 350.0, 1 << 30, None, StopReason.TIME, (Trial(64, Outcome.FITS),)),
        *("reach", "2026-01-01 12:00", {"physics.contacts": 80}, Doubt.SPEED),
    ),
    Plan(BatchPlan(8, 4, 128), ("warning: slow",)),
    TrialsFile("digest", (Trial(32, Outcome.FITS, memory=MemoryReport(1, 2)), Trial(64, Outcome.OOM))),
    Answer("key", 64, 350.0, 512, "digest", "300 frames/s, as in its trial"),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_its_file(record: JsonRecord, tmp_path: Path) -> None:
    record.write(tmp_path / "record.json")
    assert type(record).read(tmp_path / "record.json") == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_with_a_key_more_or_less_is_refused_by_its_name(record: JsonRecord) -> None:
    data = record.to_dict()
    with pytest.raises(ValueError, match=r"^more: "):
        type(record).from_json(json.dumps({**data, "more": 1}))
    name = next(iter(data))
    with pytest.raises(ValueError, match=f"^{name}: Field required"):
        type(record).from_json(json.dumps({key: value for key, value in data.items() if key != name}))


def test_a_wrong_value_deep_inside_is_named_with_its_path() -> None:
    data = RECORDS[3].to_dict()
    data["trials"][1]["host_bytes"] = "much"
    with pytest.raises(ValueError, match=r"^trials\.1\.host_bytes: Input should be a valid integer$"):
        TrialsFile.from_dict(data)


def test_the_size_of_a_batch_is_a_whole_number() -> None:
    data = RECORDS[2].to_dict()
    data["batch"]["horizon"] = 8.0
    with pytest.raises(ValueError, match=r"^batch\.horizon: "):
        Plan.from_dict(data)


def test_num_envs_loads_no_torch_and_nothing_of_the_rooms_above_it() -> None:
    package = Path(__file__).parents[3] / "isaaclab_pc" / "num_envs"
    modules = sorted(f"isaaclab_pc.num_envs.{path.stem}" for path in package.glob("[a-z]*.py"))
    above = [f"isaaclab_pc.{room}" for room in ("run", "commands", "workers", "cluster")]
    code = (
        f"import sys\nfor name in {modules}: __import__(name)\n"
        f"print([name for name in sys.modules if name.startswith(tuple({above}))])\n"
        "print([m for m in ('torch', 'warp', 'numpy', 'isaaclab', 'newton', 'pynvml') if m in sys.modules])"
    )
    assert len(modules) > 15
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"

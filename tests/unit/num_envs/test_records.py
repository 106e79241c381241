# SPDX-License-Identifier: BSD-3-Clause
"""The records that processes leave each other, the trial above all."""

import json
import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.num_envs.profile import Answer, Doubt, Profile
from isaaclab_pc.num_envs.search import StopReason
from isaaclab_pc.num_envs.trial import MemoryReport, Meter, Outcome, Progress, TrainingPhase, Trial, format_size
from isaaclab_pc.utils.json_record import JsonRecord

COUNTS = st.integers(0, 2**63)
NUMBERS = st.floats(0, allow_infinity=False, allow_nan=False)
BUFFERS = st.fixed_dictionaries({"used": COUNTS, "capacity": COUNTS, "overflowed": st.booleans()})
CONTACTS = st.fixed_dictionaries(
    {"num_envs": st.integers(1, 2**31), "contacts": BUFFERS, "constraints": BUFFERS, "share": NUMBERS}
)
SETTINGS = st.one_of(st.booleans(), st.integers(), st.floats(allow_infinity=False, allow_nan=False), st.text())
MEMORY = st.builds(
    MemoryReport,
    before_env=COUNTS,
    after_env=COUNTS,
    tensors=st.dictionaries(st.text(), COUNTS),
    held_peak=st.none() | COUNTS,
)
TEXT_FIELDS = ("detail", "log", "device")
COUNT_FIELDS = ("num_envs", "host_bytes", "taken_by_others", "faults", "samples")
OPTIONAL_COUNT_FIELDS = ("host_budget", "device_bytes", "device_budget", "most_envs")
NUMBER_FIELDS = ("frames_per_second", "wall_seconds")
FLAG_FIELDS = ("config_error", "compiled")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(COUNT_FIELDS, COUNTS),
    **dict.fromkeys(OPTIONAL_COUNT_FIELDS, st.none() | COUNTS),
    **dict.fromkeys(NUMBER_FIELDS, NUMBERS),
    **dict.fromkeys(TEXT_FIELDS, st.text()),
    **dict.fromkeys(FLAG_FIELDS, st.booleans()),
    "outcome": st.sampled_from(Outcome),
    "seconds": st.dictionaries(st.text(), NUMBERS),
    "device_meter": st.none() | st.sampled_from(get_args(Meter)),
    "overrides": st.dictionaries(st.text(), SETTINGS),
    "memory": st.none() | MEMORY,
    "contacts": st.none() | CONTACTS,
    "physx_buffers": st.dictionaries(st.text(), COUNTS),
    "progress": st.none()
    | st.builds(Progress, phase=st.sampled_from(TrainingPhase), minibatch_size=st.integers(1, 2**31)),
    "repeated_lines": st.lists(st.tuples(st.text(), COUNTS)).map(tuple),
    "minibatch": st.lists(COUNTS).map(tuple),
}
"""Values that each field may hold."""
REQUIRED = {"num_envs": 32, "outcome": "fits"}


@given(st.builds(Trial, **VALUES))
def test_every_field_comes_back_as_it_was_written(trial: Trial) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a value that is not of its field's type
        text = trial.to_json()
    back = Trial.from_json(text)
    assert back == trial
    assert repr(back.overrides) == repr(dict(trial.overrides)), "1, 1.0 and True are equal"
    assert Trial.from_json(json.dumps(trial.to_dict())) == trial


def test_text_that_is_no_unicode_still_arrives(tmp_path: Path) -> None:
    Trial(64, Outcome.ERROR, detail="caf\udce9.usd").write(tmp_path / "trial.json")
    assert Trial.read(tmp_path / "trial.json").detail == "caf?.usd"


BAD_COUNTS = [-1, 1.0, True, "1", []]
BAD_NUMBERS = [-0.5, float("nan"), 1e400, True, "1", []]
NO_MAPS = [None, 7, [["a", 1]]]
BUFFER = {"used": 1, "capacity": 2, "overflowed": False}
GOOD_CONTACTS = {"num_envs": 1, "contacts": BUFFER, "constraints": BUFFER, "share": 0.5}
GOOD_MEMORY = {"before_env": 1, "after_env": 2}
WRONG: dict[str, list[Any]] = {
    **{name: [None, *BAD_COUNTS] for name in COUNT_FIELDS},
    **dict.fromkeys(OPTIONAL_COUNT_FIELDS, BAD_COUNTS),
    **{name: [None, *BAD_NUMBERS] for name in NUMBER_FIELDS},
    **{name: [None, 7] for name in TEXT_FIELDS},
    **{name: [None, 1, "true"] for name in FLAG_FIELDS},
    "outcome": [None, 7, "great", "FITS"],
    "seconds": [*NO_MAPS, *({"build": number} for number in (None, *BAD_NUMBERS))],
    "device_meter": [7, "guess", "CARD"],
    "overrides": [*NO_MAPS, {"a": None}, {"a": float("nan")}, {"a": {"b": 1}}],
    "memory": [
        *(7, {}, {**GOOD_MEMORY, "base": 1}),
        *({**GOOD_MEMORY, name: -1} for name in ("after_env", "held_peak")),
        {**GOOD_MEMORY, "tensors": {"clouds": -1}},
    ],
    "contacts": [
        *(7, {"share": 0.5}, {**GOOD_CONTACTS, "more": 1}, {**GOOD_CONTACTS, "num_envs": 0}),
        {**GOOD_CONTACTS, "share": float("nan")},
        *({**GOOD_CONTACTS, "contacts": {**BUFFER, name: -1}} for name in BUFFER),
    ],
    "physx_buffers": [*NO_MAPS, {"gpu_heap_capacity": -1}],
    "progress": [
        *(7, {"phase": "update"}, {"phase": "lunch", "minibatch_size": 64}, {"phase": "update", "minibatch_size": 0}),
        {"phase": "update", "minibatch_size": 64, "step": 1},
    ],
    "repeated_lines": [None, "x", ["line"], [["line"]], [["line", -1]], [[1, 1]]],
    "minibatch": [None, "x", [-1]],
}
"""Values that a broken or hostile child may write into each field."""


@pytest.mark.parametrize("name", [field.name for field in fields(Trial)])
def test_a_wrong_value_is_refused_with_the_name_of_its_field(name: str) -> None:
    for value in WRONG[name]:
        with pytest.raises(ValueError, match=rf"^{name}\b") as refused:
            Trial.from_json(json.dumps({**REQUIRED, name: value}))
        assert "\n" not in str(refused.value), "it becomes the one line of another trial"


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe\x00", b'{"num_envs": 32, "outcome": "fits"', b"nan", b"[" * 10**6, b"[]", b"null", b"7"]
)
def test_what_is_no_record_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"JSON|object"):
        Trial.read(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.sampled_from(list(VALUES)) | st.text(), children),
)


@given(st.dictionaries(st.sampled_from(list(VALUES)), JSON).map(lambda some: {**REQUIRED, **some}))
def test_whatever_a_child_writes_is_a_trial_or_refused(data: dict[str, Any]) -> None:
    try:
        trial = Trial.from_json(json.dumps(data))
    except ValueError:
        return
    assert Trial.from_json(trial.to_json()) == trial
    assert str(trial).startswith("num_envs=")


def test_trial_prints_as_one_line_with_memory_speed_contacts_and_faults() -> None:
    buffer: Any = {"used": 62, "capacity": 100, "overflowed": False}
    contacts: Any = {"num_envs": 64, "contacts": buffer, "constraints": buffer, "share": 0.62}
    memory = {"host_bytes": 3 << 30, "device_bytes": 8 << 30, "device_budget": 7 << 30}
    more = {"contacts": contacts, "faults": 3, "taken_by_others": 5 << 20, "detail": "full"}
    line = str(Trial(64, Outcome.OVER_BUDGET, 351.2, wall_seconds=14.04, **memory, **more, overrides={"chunk": 512}))
    assert line.startswith("num_envs=64 chunk=512: over budget (8.0 GiB of 7.0 GiB ")
    for part in (", 3.0 GiB ", ", 351 frames/s, 14.0 s, ", "62%", ", 3 ", ", 5.0 MiB ", ", full)"):
        assert part in line


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3072.0 GiB")]
)
def test_sizes_are_rendered_in_binary_units(size: int, text: str) -> None:
    assert format_size(size) == text


RECORDS = [
    Progress(TrainingPhase.UPDATE, 64),
    Profile(
        *(64, 350.0, 1 << 30, None, StopReason.TIME, (Trial(64, Outcome.FITS),)),
        *("2026-01-01 12:00", {"physics.contacts": 80}, Doubt.SPEED),
    ),
    Answer("key", 64, 350.0, 512, "300 frames/s, as in its trial"),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_written(record: JsonRecord, tmp_path: Path) -> None:
    record.write(tmp_path / "record.json")
    assert type(record).read(tmp_path / "record.json") == record
    data = record.to_dict()
    name = next(iter(data))
    for wrong, named in (({**data, "more": 1}, "more"), ({key: data[key] for key in data if key != name}, name)):
        with pytest.raises(ValueError, match=f"^{named}: "):
            type(record).from_json(json.dumps(wrong))


def test_a_wrong_value_deep_inside_is_named_with_its_path() -> None:
    for name, wrong in (("host_bytes", "much"), ("num_envs", 8.0)):
        profile = RECORDS[1].to_dict()
        profile["trials"][0][name] = wrong
        with pytest.raises(ValueError, match=rf"^trials\.0\.{name}: "):
            Profile.from_json(json.dumps(profile))


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

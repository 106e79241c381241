# SPDX-License-Identifier: BSD-3-Clause
"""The trial as it travels from child to parent."""

import json
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "num_envs": COUNTS,
    "outcome": st.sampled_from(Outcome),
    "frames_per_second": NUMBERS,
    "seconds": st.dictionaries(st.text(), NUMBERS),
    "wall_seconds": NUMBERS,
    "host_bytes": COUNTS,
    "host_budget": st.none() | COUNTS,
    "device_bytes": st.none() | COUNTS,
    "device_meter": st.none() | st.sampled_from(Meter),
    "device_budget": st.none() | COUNTS,
    "taken_by_others": COUNTS,
    "detail": st.text(),
    "log": st.text(),
    "device": st.text(),
    "overrides": st.dictionaries(st.text(), SETTINGS),
    "config_error": st.booleans(),
    "memory": st.none() | MEMORY,
    "contacts": st.none() | CONTACTS,
    "physx_buffers": st.dictionaries(st.text(), COUNTS),
    "faults": COUNTS,
    "most_envs": st.none() | COUNTS,
    "configuration": st.text(),
    "progress": st.none()
    | st.builds(Progress, phase=st.sampled_from(TrainingPhase), minibatch_size=st.integers(1, 2**31)),
    "repeated_lines": st.lists(st.tuples(st.text(), COUNTS)).map(tuple),
    "samples": COUNTS,
    "minibatch": st.lists(COUNTS).map(tuple),
    "compiled": st.booleans(),
}
"""Values that each field may hold."""
REQUIRED = {"num_envs": 32, "outcome": "fits"}


def types_of(value: object) -> object:
    """Render a value with its types: 1, 1.0 and True are equal."""
    return repr(value)


@given(st.builds(Trial, **VALUES))
def test_every_field_comes_back_as_it_was_written(trial: Trial) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a value that is not of its field's type
        text = trial.to_json()
    back = Trial.from_json(text)
    assert back == trial
    assert types_of(back.overrides) == types_of(dict(trial.overrides))
    assert Trial.from_dict(trial.to_dict()) == trial


def test_the_strategies_above_know_every_field() -> None:
    assert set(VALUES) == {field.name for field in fields(Trial)}


def test_text_that_is_no_unicode_still_arrives(tmp_path: Path) -> None:
    Trial(64, Outcome.ERROR, detail="no such file: caf\udce9.usd").write(tmp_path / "trial.json")
    assert Trial.read(tmp_path / "trial.json").detail == "no such file: caf?.usd"


NO_COUNTS = [-1, 1.0, 1.5, True, "1", [], {}]
NO_NUMBERS = [-1, -0.5, float("nan"), float("inf"), 1e400, True, "1", [], {}]
NO_TEXTS = [None, 7, True, [], {}]
NO_MAPS = [None, 7, "x", [], [["a", 1]]]
BUFFER = {"used": 1, "capacity": 2, "overflowed": False}
GOOD_CONTACTS = {"num_envs": 1, "contacts": BUFFER, "constraints": BUFFER, "share": 0.5}
GOOD_MEMORY = {"before_env": 1, "after_env": 2}
WRONG: dict[str, list[Any]] = {
    **{key: [None, *NO_COUNTS] for key in ("num_envs", "host_bytes", "taken_by_others", "faults", "samples")},
    **dict.fromkeys(("host_budget", "device_bytes", "device_budget", "most_envs"), NO_COUNTS),
    **{key: [None, *NO_NUMBERS] for key in ("frames_per_second", "wall_seconds")},
    **dict.fromkeys(("detail", "log", "device", "configuration"), NO_TEXTS),
    **{key: [None, 0, 1, "true", []] for key in ("config_error", "compiled")},
    "outcome": [None, 7, "great", "FITS", []],
    "seconds": [*NO_MAPS, *({"build": number} for number in (None, *NO_NUMBERS))],
    "device_meter": [7, "guess", "CARD", []],
    "overrides": [*NO_MAPS, {"a": None}, {"a": []}, {"a": float("nan")}, {"a": {"b": 1}}],
    "memory": [
        *(7, "x", [], {}, {"before_env": 1}, {"before_env": 1, "base": 1}),
        *({**GOOD_MEMORY, "after_env": count} for count in NO_COUNTS),
        *({**GOOD_MEMORY, "tensors": {"clouds": count}} for count in NO_COUNTS),
        *({**GOOD_MEMORY, "held_peak": count} for count in NO_COUNTS),
    ],
    "contacts": [
        *(7, "x", [], {}, {"share": 0.5}, {**GOOD_CONTACTS, "more": 1}, {**GOOD_CONTACTS, "num_envs": 0}),
        *({**GOOD_CONTACTS, "share": number} for number in NO_NUMBERS),
        *({**GOOD_CONTACTS, "contacts": {**BUFFER, "used": count}} for count in NO_COUNTS),
        *({**GOOD_CONTACTS, "constraints": {**BUFFER, "capacity": count}} for count in NO_COUNTS),
        {**GOOD_CONTACTS, "contacts": {**BUFFER, "overflowed": 1}},
    ],
    "physx_buffers": [*NO_MAPS, *({"gpu_heap_capacity": count} for count in (None, *NO_COUNTS))],
    "progress": [
        *(7, "update", [], {}, {"phase": "update"}, {"phase": "lunch", "minibatch_size": 64}),
        {"phase": "update", "minibatch_size": 64, "step": 1},
        *({"phase": "update", "minibatch_size": count} for count in (0, *NO_COUNTS)),
    ],
    "repeated_lines": [None, 7, "x", {}, ["line"], [["line"]], [["line", -1]], [["line", True]], [[1, 1]]],
    "minibatch": [None, 7, "x", {}, *([count] for count in NO_COUNTS)],
}
"""Values that a broken or hostile child may write into each field."""


@pytest.mark.parametrize("name", [field.name for field in fields(Trial)])
def test_a_wrong_value_is_refused_with_the_name_of_its_field(name: str) -> None:
    assert WRONG[name]
    for value in WRONG[name]:
        with pytest.raises(ValueError, match=rf"^{name}\b") as refused:
            Trial.from_json(json.dumps({**REQUIRED, name: value}))
        assert "\n" not in str(refused.value), "it becomes the one line of another trial"


@pytest.mark.parametrize("name", ["extra", "nefc", "__class__", ""])
def test_a_key_that_is_no_field_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Unexpected keyword argument") as refused:
        Trial.from_json(json.dumps({**REQUIRED, name: 1}))
    assert str(refused.value).startswith(name)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_field_without_a_default_has_to_be_there(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: Field required"):
        Trial.from_json(json.dumps({key: value for key, value in REQUIRED.items() if key != name}))


@pytest.mark.parametrize(
    "text", [b"", b"\x00\x01", b"\xff\xfe\x00", b"{", b'{"num_envs": 32, "outcome": "fits"', b"nan", b"[" * 10**6]
)
def test_what_is_no_json_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"^not JSON: "):
        Trial.read(path)


@pytest.mark.parametrize("text", ["[]", "null", "7", '"fits"'])
def test_json_that_is_no_trial_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Input should be an object$"):
        Trial.from_json(text)


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


def test_a_reading_of_an_earlier_version_is_passed_over() -> None:
    data = {**REQUIRED, "memory": {**GOOD_MEMORY, "spaces": {"observations": {}, "num_actions": 3}}}
    assert Trial.from_json(json.dumps(data)).memory == MemoryReport(1, 2)


def test_records_of_other_kinds_are_not_mixed_up() -> None:
    assert issubclass(Progress, JsonRecord)
    with pytest.raises(ValueError, match=r"^num_envs: Field required"):
        Trial.from_json(Progress(TrainingPhase.UPDATE, 64).to_json())


def test_trial_prints_as_one_line_with_what_the_user_wants_to_know() -> None:
    fits = Trial(
        64, Outcome.FITS, frames_per_second=351.2, wall_seconds=14.04, host_bytes=1288490189, host_budget=19 << 30
    )
    assert str(fits) == "num_envs=64: fits (1.2 GiB of 19.0 GiB host memory, 351 frames/s, 14.0 s)"
    over = Trial(
        4096,
        Outcome.OVER_BUDGET,
        wall_seconds=9.0,
        host_bytes=3 << 30,
        device_bytes=8 << 30,
        device_budget=7 << 30,
        detail="passed 7.0 GiB of GPU memory",
    )
    assert str(over) == (
        "num_envs=4096: over budget (8.0 GiB of 7.0 GiB GPU memory, 3.0 GiB host memory, 9.0 s, "
        "passed 7.0 GiB of GPU memory)"
    )


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3072.0 GiB")]
)
def test_sizes_are_rendered_in_binary_units(size: int, text: str) -> None:
    assert format_size(size) == text


def test_the_line_for_people_shows_contacts_and_faults() -> None:
    buffer: Any = {"used": 62, "capacity": 100, "overflowed": False}
    contacts: Any = {"num_envs": 64, "contacts": buffer, "constraints": buffer, "share": 0.62}
    line = str(Trial(64, Outcome.OVERFLOW, contacts=contacts, faults=3))
    assert "contact buffers 62% full" in line
    assert "3 environment steps ended by a fault" in line

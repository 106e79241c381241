# SPDX-License-Identifier: BSD-3-Clause
"""The trial as it travels from child to parent."""

import json
from pathlib import Path

import pytest

from isaaclab_pc.scaling.trial import Outcome, Trial, format_size


def test_trial_comes_back_from_its_file_as_it_was_written(tmp_path: Path) -> None:
    trial = Trial(
        64,
        Outcome.FITS,
        frames_per_second=350.5,
        seconds={"build": 5.0, "rollout": 1.25, "update": 2.0},
        wall_seconds=12.5,
        host_bytes=3 << 30,
        host_budget=4 << 30,
        device_bytes=1 << 30,
        device_budget=2 << 30,
        extra={"torch_peak": 17},
    )
    trial.write(tmp_path / "trial.json")
    assert Trial.read(tmp_path / "trial.json") == trial
    assert [path.name for path in tmp_path.iterdir()] == ["trial.json"]


def test_what_a_child_adds_is_kept_as_extra(tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_text(json.dumps({"num_envs": 32, "outcome": "fits", "frames_per_second": 10, "nefc": 40}))
    assert Trial.read(path) == Trial(32, Outcome.FITS, frames_per_second=10.0, extra={"nefc": 40})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00\x01",
        "[]",
        "{}",
        '{"num_envs": 32}',
        '{"num_envs": "32", "outcome": "fits"}',
        '{"num_envs": true, "outcome": "fits"}',
        '{"num_envs": 32, "outcome": "great"}',
        '{"num_envs": 32, "outcome": "fits", "frames_per_second": NaN}',
        '{"num_envs": 32, "outcome": "fits", "frames_per_second": -1}',
        '{"num_envs": 32, "outcome": "fits", "frames_per_second": "fast"}',
        '{"num_envs": 32, "outcome": "fits", "seconds": [1, 2]}',
        '{"num_envs": 32, "outcome": "fits", "seconds": {"build": Infinity}}',
        '{"num_envs": 32, "outcome": "fits", "host_bytes": 1.5}',
        '{"num_envs": 32, "outcome": "fits", "extra": 7}',
    ],
)
def test_rubbish_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"\S"):
        Trial.read(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not JSON"):
        Trial.read(path)


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
    extra = {"contacts": {"share": 0.62}, "nonfinite": 3}
    line = str(Trial(64, Outcome.OVERFLOW, extra=extra))
    assert "contact buffers 62% full" in line
    assert "3 environment steps not finite" in line


@pytest.mark.parametrize("contacts", [None, {}, {"share": None}, 7])
def test_the_line_for_people_bears_a_reading_that_is_none(contacts: object) -> None:
    assert "contact" not in str(Trial(64, Outcome.FITS, extra={"contacts": contacts, "nonfinite": 0}))

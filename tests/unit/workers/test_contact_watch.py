# SPDX-License-Identifier: BSD-3-Clause
"""What the user is told of dropped contacts, from the solver's reading or from PhysX's output."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isaaclab_pc.workers.contact_watch import ContactWatch, contact_usage

PATCHES = "Patch buffer overflow detected, please increase its size to at least {} in the scene desc!\n"


def usage(contacts: int = 10, constraints: int = 16) -> Any:
    """Two environments with room for 20 contacts and 50 constraints each."""
    return {
        "num_envs": 2,
        "contacts": {"used": contacts, "capacity": 40, "overflowed": contacts > 40},
        "constraints": {"used": constraints, "capacity": 50, "overflowed": constraints > 50},
        "share": max(contacts / 40, constraints / 50),
    }


def env_with(reading: Any) -> Any:
    env = SimpleNamespace(contact_monitor=None if reading is None else SimpleNamespace(usage=lambda: reading))
    env.unwrapped = env
    return env


@pytest.mark.parametrize(
    ("reading", "named"),
    [
        (usage(contacts=77), ["40", "77", "physics.contacts=120"]),
        (usage(contacts=41, constraints=80), ["41", "50", "80", "physics.contacts=64 physics.constraints=240"]),
    ],
)
def test_a_watch_keeps_the_reading_and_warns_once_of_what_overflowed_and_what_to_set(
    tmp_path: Path, reading: Any, named: list[str]
) -> None:
    now = usage()
    watch = ContactWatch(env_with(now), tmp_path / "worker.log")
    assert watch.check() == ""
    now.update(reading)
    warning = watch.check()
    assert [text for text in named if text not in warning] == []
    assert ("constraints" in warning) == ("80" in named)
    assert watch.check() == ""
    assert watch.usage is now


def test_physx_is_watched_through_what_it_prints_from_now_on(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text(PATCHES.format(999))
    watch = ContactWatch(env_with(None), log)
    assert watch.check() == ""
    line = PATCHES.format(219146)
    with log.open("a") as file:
        file.write(f"step\n{line[:20]}")
    assert watch.check() == "", "half a line"
    with log.open("a") as file:
        file.write(line[20:])
    warning = watch.check()
    assert warning.endswith(" env.sim.physics.gpu_max_rigid_patch_count=328719")
    assert line.strip() in warning
    with log.open("a") as file:
        file.write(line)
    assert watch.check() == ""
    assert watch.usage is None


def test_a_size_that_physx_does_not_tell_is_left_to_the_user(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    watch = ContactWatch(env_with(None), log)
    assert watch.check() == ""
    log.write_text("Contact buffer overflow detected, please increase its size in the scene desc!\n")
    assert watch.check().endswith("raise env.sim.physics.gpu_max_rigid_contact_count")


def test_other_tasks_give_no_reading() -> None:
    env = SimpleNamespace()
    env.unwrapped = env
    assert contact_usage(env) is None

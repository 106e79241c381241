# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel has killed just now, by a count that is read again and again."""

from types import SimpleNamespace

import pytest

from isaaclab_pc.supervise import oom_watch
from isaaclab_pc.supervise.oom_watch import OomWatch


def test_only_what_was_counted_lately_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kills = 7
    monkeypatch.setattr(oom_watch, "memory_cgroups", lambda: [SimpleNamespace(oom_kills=lambda: kills)])
    monkeypatch.setattr(oom_watch, "RECENT_SECONDS", 10.0)
    watch = OomWatch(100.0)
    assert watch.look(101.0) == 0, "what was killed before it began is not counted"

    kills = 8
    assert watch.look(102.0) == 1
    assert [watch.look(now) for now in (105.0, 110.0, 111.9, 112.0)] == [1, 1, 1, 0]

    # Where nobody looked for a while, it may have been any time since.
    kills = 10
    assert watch.look(1000.0) == 2
    assert watch.look(1009.0) == 2
    assert watch.look(1010.0) == 0


def test_where_no_count_can_be_read_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oom_watch, "memory_cgroups", list)
    assert OomWatch(0.0).look(1.0) == 0

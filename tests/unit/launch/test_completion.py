# SPDX-License-Identifier: BSD-3-Clause
"""TAB: what half a setting may become."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isaaclab_pc.launch.completion import completions
from isaaclab_pc.launch.task_names import our_tasks

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("physics", {"physics=", "physics.dt=", "physics.substeps="}),
        ("points.sampler=", {"points.sampler=random", "points.sampler=grid", "points.sampler=voxel"}),
        ("physics=newton", {"physics=newton_mjwarp"}),
        ("supervise.enabled=", {"supervise.enabled=true", "supervise.enabled=false"}),
        ("task=", {f"task={name}" for name in our_tasks()}),
        ("en", {"env."}),
        ("quiet=", {"quiet=true", "quiet=false"}),
    ],
)
def test_keys_and_values_begin_with_the_word(word: str, expected: set[str]):
    found = completions(word)
    assert expected <= set(found)
    assert all(candidate.startswith(word) for candidate in found)


@pytest.mark.parametrize("word", ["physics.dt=", "nothing=", "nothing"])
def test_nothing_is_made_up(word: str):
    assert completions(word) == []


def test_bash_puts_the_only_value_behind_the_equals_sign():
    line = "python scripts/train.py points.sampler=v"
    script = f"""
        source scripts/completion.bash
        COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=(python scripts/train.py points.sampler = v) COMP_CWORD=4
        compopt() {{ :; }}
        _isaaclab_pc
        echo "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "voxel"

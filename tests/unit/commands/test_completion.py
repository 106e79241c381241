# SPDX-License-Identifier: BSD-3-Clause
"""TAB: what half a setting may become."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from isaaclab_pc.commands import COMMANDS
from isaaclab_pc.commands.completion import completions
from isaaclab_pc.launch.task_names import our_tasks
from isaaclab_pc.settings.base import settings_of
from isaaclab_pc.settings.run import SETTINGS

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
    found = completions("train", word)
    assert expected <= set(found)
    assert all(candidate.startswith(word) for candidate in found)


@pytest.mark.parametrize("word", ["physics.dt=", "nothing=", "nothing"])
def test_nothing_is_made_up(word: str):
    assert completions("train", word) == []
    assert completions("nothing", "task=") == []


@pytest.mark.parametrize(
    ("script", "word", "expected"),
    [
        ("view", "co", ["color="]),
        ("view", "visualizer=", ["visualizer=viser", "visualizer=rerun"]),
        ("view", "color=s", ["color=segmentation"]),
        ("view", "max_iter", []),
        ("replay", "du", ["dump="]),
        ("replay", "task=re", ["task=reach"]),
        ("replay", "env", ["env="]),
        ("play", "en", ["env."]),
        ("play", "resu", ["resume="]),
        ("scale", "--s", ["--stability"]),
        ("scale", "agent", ["agent=", "agent."]),
        ("tune", "tuner=", ["tuner=asha", "tuner=random"]),
        ("tune", "visu", []),
        ("compare", "", ["threshold=", "out=", "quiet="]),
        ("report", "r", ["run=", "runner="]),
        ("export", "ru", ["run=", "runner="]),
        ("demo", "keep=", ["keep=success", "keep=all"]),
        ("new_task", "", ["quiet="]),
        ("list_tasks", "--", ["--all", "--help", "--json"]),
        ("train", "dry_run=", ["dry_run=true", "dry_run=false"]),
    ],
)
def test_every_script_completes_what_it_takes_and_nothing_else(script: str, word: str, expected: list[str]):
    assert completions(script, word) == expected


@pytest.mark.parametrize("script", COMMANDS)
def test_what_the_help_lists_is_completed(script: str):
    text = importlib.import_module(f"isaaclab_pc.commands.{script}").HELP
    # Name, default and meaning, in columns.
    listed = re.findall(r"^  ([a-z]\w*(?:\.\w+)*) +\S+ +[^ ].{20,}$", text, re.MULTILINE)
    settings = {name for name in listed if name in {*SETTINGS, *own_settings(script)}}
    assert settings or script in ("new_task", "list_tasks")
    assert {f"{name}=" for name in settings} <= set(completions(script, ""))


def own_settings(script: str) -> set[str]:
    own = importlib.import_module(f"isaaclab_pc.commands.{script}").TAKES.own
    return set() if own is None else set(settings_of(own))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("python scripts/train.py points.sampler=v", "voxel"),
        ("python scripts/view.py visualizer=r", "rerun"),
        ("isaaclab-pc demo keep=s", "success"),
        ("python other.py points.sampler=v", ""),
    ],
)
def test_bash_puts_the_only_value_behind_the_equals_sign(words: str, expected: str):
    parts = " ".join(words.replace("=", " = ").split())
    script = f"""
        source scripts/completion.bash
        COMP_LINE='{words}' COMP_POINT={len(words)} COMP_WORDS=({parts})
        compopt() {{ :; }}
        _isaaclab_pc
        echo "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == expected

# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of docker/: what they name is there. Nothing here builds an image."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from tests.unit.wheel import SOURCES

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
APPTAINER = (ROOT / "docker" / "isaaclab_pc.def").read_text(encoding="utf-8")
TOO_LARGE = {".venv", "logs", ".git"}


def _extras() -> set[str]:
    """Names of the extras in setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXTRAS_REQUIRE":
            return set(ast.literal_eval(node.value))
    raise AssertionError("setup.py has no EXTRAS_REQUIRE")


def _copied() -> dict[str, str]:
    """What the Apptainer definition copies, and where to."""
    section = re.search(r"^%files\n(.*?)^%", APPTAINER, re.MULTILINE | re.DOTALL)
    assert section is not None
    return {source: target for source, target in map(shlex.split, section[1].strip().splitlines())}


@pytest.mark.parametrize(
    ("recipe", "pattern"),
    [(DOCKERFILE, r"EXTRAS=([\w,]+)"), (APPTAINER, r"\.\[([\w,]+)\]")],
    ids=["docker", "apptainer"],
)
def test_the_extras_exist(recipe: str, pattern: str):
    named = re.findall(pattern, recipe)
    assert named
    assert {extra for names in named for extra in names.split(",")} <= _extras()


def test_the_base_image_of_docker_can_be_chosen_and_is_that_of_apptainer():
    (default,) = re.findall(r"^ARG BASE=(\S+)\nFROM \$\{BASE\}$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^From: (\S+)$", APPTAINER, re.MULTILINE) == [default]


def test_docker_copies_no_environment_and_no_runs():
    ignored = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    assert re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) == [". ."]
    assert ignored >= TOO_LARGE
    assert not ignored & set(SOURCES)


def test_docker_runs_what_is_there():
    (target,) = re.findall(r"make (\S+) EXTRAS", DOCKERFILE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert target == ".venv/.installed"
    assert "VENV := .venv\n" in makefile
    assert "INSTALLED := $(VENV)/.installed\n" in makefile
    for script in re.findall(r"scripts/\w+\.py", DOCKERFILE):
        assert (ROOT / script).is_file()


def test_apptainer_copies_what_the_package_is_made_of_and_nothing_else():
    copied = _copied()
    assert set(copied) == set(SOURCES)
    assert set(copied.values()) == {"/app/"}
    assert all((ROOT / source).exists() for source in copied)

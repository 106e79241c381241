# SPDX-License-Identifier: BSD-3-Clause
"""The pages tell the truth: links lead somewhere, and the scripts take the commands that are shown."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from isaaclab_pc.cli.command_line import JSON_FLAG, parse_command, parse_script_command, split_own
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cluster.slurm import SubmitSettings
from isaaclab_pc.commands import demo, objects, replay, report, robot, scale, tune, view
from isaaclab_pc.run.algorithm import choose_algorithm
from isaaclab_pc.run.platform import choose_platform

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    + [path for folder in ("docs", "benchmarks/results") for path in (ROOT / folder).glob("*.md")]
)
README_LINES = 120
LEFT_OUT = ("<changes>", "task=press_button", "task=hover")
"""What stands for a choice of the reader, and tasks that the reader writes."""

_FENCE = re.compile(r"^(`{3,})([^\n]*)\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SCRIPT = re.compile(r"(?:(?:python |\| `(?=scripts/\w+\.py ))scripts/(?=\w+\.py)|isaaclab-pc )(\w+)(?:\.py)?([^`\n]*)")
"""A command; at the beginning of a table's cell also without ``python``."""

_COMMENT = re.compile(r"\s+#.*$")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _text(page: Path) -> str:
    """The page without its fenced code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """GitHub's names of a page's headings."""
    words = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).lower() for heading in _HEADING.findall(_text(page))]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in words}


def _commands() -> Iterator[tuple[str, str, str]]:
    """Page, script and arguments of every command with a script of ours; `...` stands for what is left out."""
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
        for script, rest in _SCRIPT.findall(text):
            arguments = re.split(r"\s[|>&;]|;|\.\.\.", _COMMENT.sub("", rest))[0].strip()
            yield _name(page), script, arguments


COMMANDS_IN_ORDER = tuple(dict.fromkeys(_commands()))
COMMANDS = sorted(COMMANDS_IN_ORDER)


def _split(arguments: str) -> list[str]:
    lexer = shlex.shlex(arguments.rstrip("'\"") if arguments.count("'") % 2 else arguments, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return [word.replace("<task>", "reach") for word in lexer if word not in LEFT_OUT]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_and_images_are_there(page: Path):
    for link in _LINK.findall(_text(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{_name(page)}: {link}"
        if anchor:
            assert anchor in _anchors(target), f"{_name(page)}: {link}"


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_commands_were_found():
    assert {script for _, script, _ in COMMANDS} >= {"train", "play", "scale", "demo", "replay", "tune", "new_task"}
    assert len(COMMANDS) > 40
    assert ("docs/quick_start.md", "report", "task=press_button run=latest") in COMMANDS, "it stands in a table"


@pytest.mark.parametrize(("script", "arguments"), sorted({(script, arguments) for _, script, arguments in COMMANDS}))
def test_scripts_take_the_commands_of_the_pages(script: str, arguments: str):
    assert (ROOT / "scripts" / f"{script}.py").is_file()
    argv = _split(arguments)
    match script:
        case _ if argv in (["--help"], []):
            pass
        case "train":
            parse_command([word for word in split_own(argv, SubmitSettings)[1] if word != JSON_FLAG])
        case "play" | "export":
            # The run of an export is what play resumes.
            parse_command([text.replace("run=", "resume=") for text in argv])
        case "view":
            parse_script_command(argv, view.TAKES)
        case "report":
            parse_script_command([text for text in argv if "=" in text], report.TAKES)
        case "scale":
            parse_command([argument for argument in argv if argument != scale.STABILITY])
        case "demo":
            parse_script_command(argv, demo.TAKES)
        case "objects":
            parse_script_command(argv, objects.TAKES)
        case "robot":
            parse_script_command(robot.with_key(argv), robot.TAKES)
        case "replay":
            parse_script_command(argv, replay.TAKES)
        case "tune":
            _, others = tune._split(argv)
            parse_script_command(others, tune.TAKES)
        case "new_task":
            assert len(argv) == 1
        case _:
            pytest.fail(f"add scripts/{script}.py to this test")


WITH_FIELDS = sorted(
    {text for _, script, text in COMMANDS if script == "train" and re.search(r"\b(env|agent)\.", text)}
)


@pytest.mark.parametrize("arguments", WITH_FIELDS)
def test_tasks_and_agents_have_the_fields_of_the_pages(arguments: str, tmp_path: Path):
    from isaaclab_pc.workers.resolve import resolve

    command = parse_command(_split(arguments))
    settings = choose_algorithm(choose_platform(compose(command.settings, command.env, command.agent)))
    assert resolve(settings, 4).max_iterations > 0


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path):
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", tmp_path / "cache"]
    result = subprocess.run(
        [*build, "-c", ROOT / "docs", ROOT, tmp_path / "site"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "site" / "docs" / "index.html").is_file()

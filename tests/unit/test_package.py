# SPDX-License-Identifier: BSD-3-Clause
"""What is installed: the metadata, the links, light imports, and a wheel that works in a clean environment."""

import importlib.metadata
import json
import re
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import uv
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import isaaclab_pc
from tests.unit.wheel import build_wheel, run

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "extension.toml").read_text(encoding="utf-8"))["package"]["version"]
TESTED_EXTRAS = ("", "ovphysx", "rl_games", "skrl", "sb3", "viz", "cluster", "export", "wandb", "docs", "test")
HEAVY = {"torch", "warp", "isaaclab", "isaaclab_tasks", "newton", "ovphysx", "pxr", "omni"}
LIGHT_PACKAGES = (
    *("cli", "commands", "cluster", "processes", "report", "run", "settings", "supervise", "terminal", "utils"),
)
LIGHT_MODULES = (
    *("isaaclab_pc", "isaaclab_pc.__main__", "isaaclab_pc.tasks", "isaaclab_pc.errors"),
    *("isaaclab_pc.num_envs.search", "isaaclab_pc.learners.common.batch", "isaaclab_pc.num_envs.profile"),
    *("isaaclab_pc.assets.robots", "isaaclab_pc.demos.demo_file", "isaaclab_pc.faults.dump"),
)
OFFLINE = ("dns error", "failed to fetch", "error sending request", "network was disabled")


def _package_files(root: Path) -> set[str]:
    """Every file of the package below `root`, through the links, as isaaclab_pc/... paths."""
    files = set()
    for folder, names, filenames in (root / "isaaclab_pc").walk(follow_symlinks=True):
        names[:] = [name for name in names if name != "__pycache__"]
        files.update((folder / filename).relative_to(root).as_posix() for filename in filenames)
    return files


# Metadata and links


def test_version_is_the_one_of_extension_toml():
    assert isaaclab_pc.__version__ == VERSION
    assert importlib.metadata.version("isaaclab_pc") == VERSION


def test_changelog_describes_this_version():
    assert re.search(
        rf"^## \[{re.escape(VERSION)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )


@pytest.mark.parametrize("name", ["tasks", "agents", "extension.toml"])
def test_links_lead_to_the_top_level(name: str):
    link = ROOT / "isaaclab_pc" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..", name)
    assert link.samefile(ROOT / name)


def test_isaac_lab_finds_the_tasks_by_entry_point():
    (entry_point,) = importlib.metadata.entry_points(group="isaaclab.tasks", name="isaaclab_pc")
    assert entry_point.load().__name__ == "isaaclab_pc.tasks"


def _light_modules() -> list[str]:
    package = ROOT / "isaaclab_pc"
    found = sorted(path for name in LIGHT_PACKAGES for path in (package / name).rglob("*.py"))
    names = [path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in found]
    return [*LIGHT_MODULES, *(name.removesuffix(".__init__") for name in names)]


def test_the_parent_loads_no_torch_and_no_simulator(tmp_path: Path):
    names = _light_modules()
    assert {"isaaclab_pc.cli.compose", "isaaclab_pc.commands.train", "isaaclab_pc.settings"} <= set(names)
    # One process for all; after each, so that the one which loads something heavy is named.
    code = f"""
import importlib, json, sys
guilty = {{}}
loaded = set()
for name in {names!r}:
    importlib.import_module(name)
    heavy = {HEAVY!r} & {{module.partition(".")[0] for module in sys.modules}} - loaded
    if heavy:
        guilty[name] = sorted(heavy)
    loaded |= heavy

from isaaclab_pc.cli import task_names
task_names.our_tasks(), task_names.expert_tasks()
heavy = {HEAVY!r} & {{module.partition(".")[0] for module in sys.modules}} - loaded
if heavy:
    guilty["our_tasks()"] = sorted(heavy)
print(json.dumps(guilty))
"""
    result = run(sys.executable, "-c", code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {}


def test_constraints_pin_every_requirement_to_what_it_allows():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {}
    for line in (line for line in lines if not line.startswith("#")):
        name, version = re.fullmatch(r"([a-z0-9.-]+)==([a-z0-9.]+)", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
        pins[canonicalize_name(name)] = version
    requirements = [Requirement(text) for text in importlib.metadata.requires("isaaclab_pc") or []]
    tested = [
        requirement
        for requirement in requirements
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in TESTED_EXTRAS)
    ]
    assert {"isaaclab", "ovphysx", "rl-games", "skrl", "stable-baselines3", "pytest"} <= {
        canonicalize_name(requirement.name) for requirement in tested
    }
    for requirement in tested:
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), str(requirement)


# The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and gymnasium, nothing else."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = (uv.find_uv_bin(), "pip", "install", "--python", python)
    bare = run(*install, "--offline", "--no-deps", wheel, cwd=folder)
    assert bare.returncode == 0, bare.stderr
    result = run(*install, "-c", ROOT / "constraints.txt", "gymnasium", cwd=folder)
    if result.returncode != 0 and any(sign in result.stderr.lower() for sign in OFFLINE):
        pytest.skip(f"gymnasium cannot be installed, no package index is reached: {result.stderr.strip()[-300:]}")
    assert result.returncode == 0, result.stderr
    return python


def test_wheel_holds_every_file_of_the_package_and_the_license(wheel: Path):
    assert wheel.name == f"isaaclab_pc-{VERSION}-py3-none-any.whl"
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == _package_files(wheel.parents[1])
    assert {"isaaclab_pc/extension.toml", "isaaclab_pc/tasks/__init__.py", "isaaclab_pc/agents/__init__.py"} <= names

    (license_file,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/LICENSE")]
    assert zipfile.ZipFile(wheel).read(license_file) == (ROOT / "LICENSE").read_bytes()


IMPORTS_ALONE = """
import importlib.resources, json
import isaaclab_pc, isaaclab_pc.agents, isaaclab_pc.tasks
data = importlib.resources.files("isaaclab_pc").joinpath("extension.toml").read_text()
print(json.dumps([isaaclab_pc.__version__, data, isaaclab_pc.tasks.__file__]))
"""


def test_an_installed_wheel_needs_gymnasium_alone_and_has_a_program(clean_python: Path, tmp_path: Path):
    result = run(clean_python, "-I", "-c", IMPORTS_ALONE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    version, data, path = json.loads(result.stdout)
    assert (version, data) == (VERSION, (ROOT / "extension.toml").read_text(encoding="utf-8"))
    assert Path(path).is_relative_to(clean_python.parents[1])
    result = run(clean_python.with_name("isaaclab-pc"), "--help", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "isaaclab-pc <command>" in result.stdout

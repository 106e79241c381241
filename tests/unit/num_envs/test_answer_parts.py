# SPDX-License-Identifier: BSD-3-Clause
"""On which settings, files, sources and versions an answer depends."""

import sys
from pathlib import Path

import pytest

import isaaclab_pc
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.num_envs import answer_parts as module
from isaaclab_pc.num_envs.answer_parts import answer_parts, digest_of, places_of
from isaaclab_pc.settings import RunSettings

GIVEN = ["task=reach", "device=cpu", "algorithm=ppo"]


@pytest.fixture(autouse=True)
def _no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_sources", lambda task: f"sources of {task}")


def run(*settings: str, env: tuple[str, ...] = ()) -> RunSettings:
    return compose([*GIVEN, *settings], list(env))


@pytest.mark.parametrize(
    ("setting", "matters"),
    [
        ("seed=7", False),
        ("max_iterations=3", False),
        ("num_envs=64", False),
        ("scaling.max_seconds=60", False),
        ("supervise.max_restarts=1", False),
        ("logger=wandb", False),
        ("device=cuda:1", False),
        ("obs=state", True),
        ("task=lift", True),
        ("runner=skrl", True),
        ("points.num_points=128", True),
        ("guard.mode=disabled", True),
        ("minibatch_size=512", True),
        ("gpus=2", True),
    ],
)
def test_an_answer_depends_on_what_is_simulated_and_learned(setting: str, matters: bool) -> None:
    assert (answer_parts(run(setting)) != answer_parts(run())) == matters


def test_a_file_that_an_override_names_counts_by_its_content(tmp_path: Path) -> None:
    mesh = tmp_path / "cup.usd"
    mesh.write_text("small")
    settings = run(env=(f"env.scene.object.spawn.usd_path={mesh}",))
    before = answer_parts(settings)
    assert answer_parts(settings) == before
    mesh.write_text("a larger one")
    assert answer_parts(settings) != before


@pytest.mark.parametrize(
    ("package", "matters"), [("torch", True), ("newton", True), ("rsl-rl-lib", True), ("skrl", False), ("rich", False)]
)
def test_versions_of_what_allocates_matter(monkeypatch: pytest.MonkeyPatch, package: str, matters: bool) -> None:
    def versions(of: str):
        return lambda names: {name: "2" if name == of else "1" for name in names}

    monkeypatch.setattr(module, "installed_versions", versions(""))
    before = answer_parts(run())
    monkeypatch.setattr(module, "installed_versions", versions(package))
    assert (answer_parts(run()) != before) == matters


CAMERA = '''"""A task."""
class CameraCfg:
    """A camera."""
    width = 64
    """Pixels."""
def build():
    """Build it."""
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the user's, which nobody has imported."""
    folder = tmp_path / "my_lab"
    (folder / "tasks" / "press").mkdir(parents=True)
    (folder / "meshes").mkdir()
    (folder / "tasks" / "press" / "env_cfg.py").write_text(CAMERA)
    (folder / "cameras.py").write_text(CAMERA)
    (folder / "__init__.py").write_text("raise ImportError('it needs a simulator')")
    (folder / "meshes" / "button.usda").write_text("#usda 1.0")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def press() -> str:
    digest = digest_of(places_of(["my_lab.tasks.press.env_cfg"]))
    assert "my_lab" not in sys.modules
    return digest


@pytest.mark.parametrize(
    ("file", "old", "new", "matters"),
    [
        ("tasks/press/env_cfg.py", "width = 64", "width = 128", True),
        ("cameras.py", "width = 64", "width = 128", True),
        ("meshes/button.usda", "1.0", "1.0\ndef Mesh {}", True),
        ("cameras.py", "def build():", "def build():\n    return 1", True),
        ("cameras.py", "def build():", "def build(near=0.1):", True),
        # What a run leaves in a package.
        *((file, "", "new", False) for file in ("logs/run.txt", "policy.pt", ".git/config.json", "__pycache__/a.py")),
    ],
)
def test_code_and_assets_matter(package: Path, file: str, old: str, new: str, matters: bool) -> None:
    before = press()
    assert press() == before
    path = package / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(path.read_text().replace(old, new) if path.exists() else new)
    assert (press() != before) == matters


def test_a_task_of_this_package_depends_on_its_own_folder_and_on_what_trains() -> None:
    root = Path(isaaclab_pc.__file__).parent
    places = places_of(["isaaclab_pc.tasks.reach.reach_env", "isaaclab_pc.agents.ppo"])
    for name in ("tasks/reach", "agents", "envs", "sensors", "learners"):
        assert (root / name).resolve() in places
    for name in ("tasks", "tasks/lift", "terminal", "num_envs", "workers"):
        assert (root / name).resolve() not in places


def test_a_single_module_counts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_task.py").write_text("x = 1")
    (tmp_path / "other.py").write_text("x = 1")
    places = places_of(["my_task", "nobody_has_this.task", "isaaclab_tasks.contrib.reach.env"])
    assert tmp_path / "my_task.py" in places
    assert tmp_path not in places
    (own,) = [place for place in places if "isaaclab_tasks" in place.parts]
    assert own.name == "reach"
    assert own.is_dir()

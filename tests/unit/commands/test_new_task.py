# SPDX-License-Identifier: BSD-3-Clause
"""What a new task's files are; tests/sim/test_new_task.py runs them."""

import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from isaaclab_pc.commands.new_task import new_task
from isaaclab_pc.errors import ConfigError

INIT = '''# SPDX-License-Identifier: BSD-3-Clause
"""Tasks."""

from isaaclab_pc.tasks import lift, reach

__all__ = ["lift", "reach"]
'''


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    return folder


def test_it_writes_one_folder_and_registers_it(tasks: Path) -> None:
    written = new_task("press_button", tasks)
    assert [path.relative_to(tasks).as_posix() for path in written] == [
        "press_button/__init__.py",
        "press_button/press_button_env.py",
        "press_button/press_button_env_cfg.py",
        "__init__.py",
    ]
    assert (tasks / "__init__.py").read_text() == INIT.replace("lift, reach", "lift, press_button, reach").replace(
        '"lift", "reach"', '"lift", "press_button", "reach"'
    )
    assert '"IsaacPC-Press-Button-Franka-Direct"' in written[0].read_text()
    assert not any(re.search("new_?task|tools", path.read_text(), re.IGNORECASE) for path in written)


@pytest.mark.parametrize("check", [["check", "--ignore=I001"], ["format", "--check"]])
def test_what_it_writes_passes_the_linter(tasks: Path, check: list[str]) -> None:
    repository = Path(__file__).parents[3]
    for path in new_task("press_button", tasks):
        # Checked as if it stood in the repository, except for the order of imports: ruff sorts those by what exists.
        place = repository / "tasks" / path.relative_to(tasks)
        command = [sys.executable, "-m", "ruff", *check, "--no-cache", "--stdin-filename", str(place), "-"]
        done = subprocess.run(
            command, input=path.read_text(), cwd=repository, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["Press", "press-button", "2press", "press__button", "class", "", "true", "null", "nan", "inf", "x" * 300]
)
def test_a_name_that_no_module_or_setting_can_have_is_refused(tasks: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="press_button"):
        new_task(name, tasks)


def test_a_folder_that_cannot_be_written_is_refused_and_nothing_is_left(
    tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tasks.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
        with pytest.raises(ConfigError, match="Permission denied"):
            new_task("press_button", tasks)
    assert sorted(tasks.iterdir()) == before

    new_task("press_button", tasks)
    with pytest.raises(ConfigError, match="tasks/press_button"):
        new_task("press_button", tasks)

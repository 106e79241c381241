# SPDX-License-Identifier: BSD-3-Clause
"""The commands of the README and the docs run, each in a folder of its own, with fewer environments and iterations."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import trimesh

from tests.sim.test_new_task import add_expert
from tests.sim.training import run_program
from tests.unit.test_docs import COMMANDS, COMMANDS_IN_ORDER, ROOT, _split

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow, pytest.mark.timeout(3600)]

NOT_HERE = {
    r"hydra/launcher=slurm": "needs a SLURM cluster; tests/unit/cluster/test_slurm.py has a fake one",
    r"cluster=ray": "needs more cores; tests/sim/test_fault_tolerance.py runs it with two",
    r"cuda|gpus=4": "needs GPUs",
    r"newton_gl": "needs a display",
    r"^replay .*visualizer=viser": "goes on until Ctrl-C",
}
"""Commands that a machine with two cores and no GPU cannot run, as patterns, and why."""

OWN_TASK = re.compile(r"^new_task|task=(press_button|hover|sort)\b")
"""Commands about a task that the reader writes: they run in a copy of the package, in the order of their page."""

_SHORT_RUN = ("device=cpu", "num_envs=8", "env.episode_length_s=1")
_SHORT_TRAINING = (*_SHORT_RUN, "max_iterations=2", "eval.episodes=8", "agent.samples_per_update=64")
SHORTER = {
    "train": _SHORT_TRAINING,
    "tune": (*_SHORT_TRAINING, "samples=2", "concurrent=1"),
    "play": ("device=cpu", "num_envs=8", "eval.episodes=8"),
    "demo": ("device=cpu", "num_envs=2", "episodes=2"),
    "view": ("device=cpu", "num_envs=2", "steps=5"),
    "scale": ("device=cpu", "env.episode_length_s=1", "scaling.min=8", "scaling.max=8", "scaling.cache=ignore"),
    "scale --stability": ("device=cpu", "env.episode_length_s=1", "num_envs=4", "physics.position_iterations=8"),
    "replay": ("device=cpu",),
}
"""Settings that take the place of a command's own, or are added to them."""

RUNS = sorted(
    {(script, arguments) for _, script, arguments in COMMANDS if not OWN_TASK.search(f"{script} {arguments}")}
)
PAGES_WITH_OWN_TASK = sorted({page for page, script, arguments in COMMANDS if OWN_TASK.search(f"{script} {arguments}")})


def reason_not_to(script: str, arguments: str) -> str | None:
    """Return why a command cannot run here."""
    text = f"{script} {arguments}".strip()
    return next((reason for pattern, reason in NOT_HERE.items() if re.search(pattern, text)), None)


def shortened(script: str, argv: list[str]) -> list[str]:
    """Return a command's arguments with less to do."""
    if "--help" in argv:
        return argv
    if script == "train" and any(text.startswith("resume=") for text in argv):
        return [*argv, "max_iterations=3"]
    added = SHORTER.get("scale --stability" if "--stability" in argv else script, ())
    if script == "scale" and "--stability" not in argv:
        added = (*added, *(["num_envs=8"] if any(text.startswith("num_envs=") for text in argv) else []))
    if "runner=rl_games" in argv:
        added = tuple(text.replace("agent.samples", "agent.params.config.samples") for text in added)
    keys = {text.partition("=")[0] for text in added}
    return [*(text for text in argv if text.partition("=")[0] not in keys), *added]


class Workshop:
    """Runs that the commands are about, made when the first command asks for them."""

    def __init__(self, folder: Path, checkout: Path = ROOT) -> None:
        self.folder = folder
        self.checkout = checkout
        self._made: set[tuple[str, ...]] = set()

    def run(self, folder: Path, script: str, *arguments: str) -> str:
        """Run a script to its end; return what it printed."""
        program = self.checkout / "scripts" / f"{script}.py"
        return run_program(folder, program, *arguments, PYTHONPATH=str(self.checkout))

    def _make(self, script: str, *arguments: str) -> None:
        if (script, *arguments) not in self._made:
            self.run(self.folder, script, *shortened(script, list(arguments)))
            self._made.add((script, *arguments))

    def prepare(self, script: str, arguments: str) -> None:
        """Make the runs that a command needs."""
        if re.search(r"rl_games|logs/\*", arguments):
            self._make("train", "task=lift", "runner=rl_games", "algorithm=ppo")
        if re.search(r"=latest|logs/", arguments) or script == "report":
            # The latest run is looked for among those of the task, and without one of the default task.
            self._make("train", f"task={'lift' if 'lift' in arguments else 'reach'}")
        if "dump=" in arguments:
            # Any robot moves faster than that.
            self._make("view", "task=lift", "policy=random", "record=out.mp4", "env.guard.joint_velocity_factor=0.001")

    def fill_in(self, word: str) -> list[str]:
        """Put real paths where a page has placeholders."""
        if "dump=" in word:
            return [f"dump={next(self.folder.glob('logs/view/*/*/dumps/dump_0.npz'))}"]
        if word.startswith("logs/"):
            return [str(path) for path in sorted(self.folder.glob(word.replace("<time>", "*")))]
        return [word]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.mark.parametrize("pattern", NOT_HERE)
def test_there_are_such_commands_that_cannot_run_here(pattern: str) -> None:
    assert any(re.search(pattern, f"{script} {arguments}") for script, arguments in RUNS)


@pytest.mark.parametrize(("script", "arguments"), RUNS, ids=[" ".join(command) for command in RUNS])
def test_it_runs(script: str, arguments: str, workshop: Workshop, tmp_path: Path) -> None:
    reason = reason_not_to(script, arguments)
    if reason is not None:
        pytest.skip(reason)

    workshop.prepare(script, arguments)
    argv = [part for word in _split(arguments) for part in workshop.fill_in(word)]
    # A command may change the runs, and there may be later ones.
    if (workshop.folder / "logs").is_dir():
        shutil.copytree(workshop.folder / "logs", tmp_path / "logs")
    if "meshes=" in arguments:
        (tmp_path / "my_meshes").mkdir()
        trimesh.creation.box((0.03, 0.04, 0.05)).export(tmp_path / "my_meshes" / "box.stl")
        trimesh.creation.box((30.0, 40.0, 50.0)).export(tmp_path / "cup.stl")
    assert workshop.run(tmp_path, script, *shortened(script, argv))


@pytest.mark.parametrize("page", PAGES_WITH_OWN_TASK)
def test_the_commands_about_a_task_of_ones_own_run(page: str, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("isaaclab_pc", "tasks", "agents", "scripts"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "extension.toml", checkout)

    workshop = Workshop(tmp_path, checkout)
    for script, arguments in [(script, arguments) for where, script, arguments in COMMANDS_IN_ORDER if where == page]:
        if not OWN_TASK.search(f"{script} {arguments}"):
            continue
        if script == "demo":
            # The page gives the task its expert first.
            add_expert(checkout / "tasks" / "hover")
        if script == "report":
            # The table says "and five iterations of it".
            workshop.run(tmp_path, "train", *shortened("train", arguments.split()[:1]))
        assert workshop.run(tmp_path, script, *shortened(script, shlex.split(arguments)))


def test_isaac_labs_own_training_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^isaaclab (train .*?)\s+# without a GPU, add: (--device cpu)$", text, re.MULTILINE)
    program = str(Path(sys.executable).with_name("isaaclab"))
    shorter = ("--num_envs", "8", "--max_iterations", "2")
    assert "iteration 1/2" in run_program(tmp_path, program, *shlex.split(" ".join(command)), *shorter)

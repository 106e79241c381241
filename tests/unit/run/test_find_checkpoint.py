# SPDX-License-Identifier: BSD-3-Clause
"""Which checkpoint ``latest``, ``best`` or a path means."""

import os

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.checkpoint_file import save_checkpoint
from isaaclab_pc.run.find_checkpoint import find_checkpoint
from isaaclab_pc.run.record import RunRecord


@pytest.fixture
def make_run(tmp_path):
    """Make a run with checkpoints, as the worker leaves it; the first letter is the oldest."""

    def make(name, latest=None, best=None, experiment="reach", runner="rsl_rl"):
        folder = tmp_path / runner / experiment / name
        (folder / "checkpoints").mkdir(parents=True)
        record = RunRecord.create(folder, compose([f"runner={runner}"]))
        checkpoints = {}
        for which, file in (("latest", latest), ("best", best)):
            checkpoints[which] = {"path": f"checkpoints/{file}", "iteration": 1, "success_rate": None} if file else None
            if file:
                save_checkpoint(folder / "checkpoints" / file, {"weights": torch.arange(1000.0)}, {})
        record.update(started=f"2026-01-01T00:00:0{ord(name) - ord('a')}", checkpoints=checkpoints)
        return folder

    return make


@pytest.fixture
def find(tmp_path, monkeypatch):
    for module in ("folder", "find_checkpoint"):
        monkeypatch.setattr(f"isaaclab_pc.run.{module}.LOGS", tmp_path)
    return lambda resume: find_checkpoint(resume, compose())


def test_latest_is_the_newest_run_that_has_a_checkpoint_and_newer_ones_are_named(find, make_run, capsys):
    make_run("a", latest="model_1.pt")
    middle = make_run("b", latest="model_2.pt", best="model_1.pt")
    newer = make_run("c")
    make_run("d", latest="model_9.pt", experiment="lift")
    make_run("e", latest="model_9.pt", runner="rl_games")
    record, checkpoint = find("latest")
    assert (record.folder, checkpoint) == (middle, middle / "checkpoints" / "model_2.pt")
    assert capsys.readouterr().err.startswith(f"resume=latest: {newer} ")
    assert find("best")[1].name == "model_1.pt"


def test_a_run_is_found_by_its_folder_or_by_a_checkpoint(find, make_run):
    folder = make_run("a", latest="model_2.pt", best="model_1.pt")
    for path, name in ((folder, "model_2.pt"), (folder / "checkpoints" / "model_1.pt", "model_1.pt")):
        record, checkpoint = find(str(path))
        assert (record.folder, checkpoint.name) == (folder, name)


def test_a_broken_record_hides_no_other_run_and_is_named(find, make_run, capsys):
    folder = make_run("a", latest="model_2.pt")
    broken = make_run("b", latest="model_2.pt") / "run.json"
    broken.write_text("{", encoding="utf-8")
    assert find("latest")[0].folder == folder
    assert str(broken) in capsys.readouterr().err


def test_what_cannot_be_resumed_is_refused(tmp_path, find, make_run):
    with pytest.raises(ConfigError, match=r"^resume=latest: .*rsl_rl/reach "):
        find("latest")
    with pytest.raises(ConfigError, match=r"^resume=lastest: .*latest, best"):
        find("lastest")
    with pytest.raises(ConfigError, match=r"init=pretrained .*scripts/play\.py"):
        find("pretrained")
    empty = make_run("a")
    with pytest.raises(ConfigError, match=f"^resume={empty}: "):
        find(str(empty))
    stranger = tmp_path / "stranger.pt"
    stranger.touch()
    with pytest.raises(ConfigError, match=rf"^resume={stranger} .*checkpoints/model_<n>\.pt"):
        find(str(stranger))
    make_run("a", latest="model_2.pt", runner="skrl")
    with pytest.raises(ConfigError, match=r"rsl_rl/reach .*runner=skrl"):
        find("latest")


DAMAGES = {
    "empty": lambda content: b"",
    "garbage": lambda content: os.urandom(len(content)),
    "a flipped bit in the weights": lambda content: content.replace(b"\x00\x80\x00D", b"\x00\x81\x00D", 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("resume", ["latest", "best", "folder"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(find, make_run, capsys, damage, resume):
    folder = make_run("a", latest="model_2.pt", best="model_2.pt")
    newest = folder / "checkpoints" / "model_2.pt"
    content = newest.read_bytes()
    older = folder / "checkpoints" / "model_1.pt"
    older.write_bytes(content)
    os.utime(older, (1, 1))
    assert damage(content) != content
    newest.write_bytes(damage(content))

    asked = str(folder) if resume == "folder" else resume
    assert find(asked)[1] == older
    assert str(newest) in capsys.readouterr().err
    # Whoever names a file means that one; it is refused where it is read.
    assert find(str(newest))[1] == newest


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(find, make_run):
    folder = make_run("a", latest="model_2.pt", best="model_1.pt")
    for file in folder.glob("checkpoints/*.pt"):
        file.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"model_\d\.pt"):
        find("latest")

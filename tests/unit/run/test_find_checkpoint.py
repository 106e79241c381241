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
    """Make a run with checkpoints, as the worker leaves it."""

    def make(name, started, latest=None, best=None, experiment="reach", runner="rsl_rl"):
        folder = tmp_path / runner / experiment / name
        (folder / "checkpoints").mkdir(parents=True)
        record = RunRecord.create(folder, compose([f"runner={runner}"]), experiment)
        checkpoints = {}
        for which, file in (("latest", latest), ("best", best)):
            checkpoints[which] = {"path": f"checkpoints/{file}", "iteration": 1, "success_rate": None} if file else None
            if file:
                save_checkpoint(folder / "checkpoints" / file, {"weights": torch.arange(1000.0)}, {})
        record.update(started=started, checkpoints=checkpoints)
        return folder

    return make


def test_latest_is_the_newest_run_that_has_a_checkpoint(tmp_path, make_run):
    make_run("a", "2026-01-01T00:00:00", latest="model_1.pt")
    middle = make_run("b", "2026-01-02T00:00:00", latest="model_2.pt", best="model_1.pt")
    make_run("c", "2026-01-03T00:00:00")
    make_run("d", "2026-01-04T00:00:00", latest="model_9.pt", experiment="lift")
    make_run("e", "2026-01-05T00:00:00", latest="model_9.pt", runner="rl_games")
    record, checkpoint = find_checkpoint("latest", tmp_path, "rsl_rl", "reach")
    assert record.folder == middle
    assert checkpoint == middle / "checkpoints" / "model_2.pt"
    assert find_checkpoint("best", tmp_path, "rsl_rl", "reach")[1].name == "model_1.pt"


def test_a_run_is_found_by_its_folder_or_by_a_checkpoint(tmp_path, make_run):
    folder = make_run("a", "2026-01-01T00:00:00", latest="model_2.pt", best="model_1.pt")
    for path, name in ((folder, "model_2.pt"), (folder / "checkpoints" / "model_1.pt", "model_1.pt")):
        record, checkpoint = find_checkpoint(str(path), tmp_path, "rsl_rl", "reach")
        assert record.folder == folder
        assert checkpoint.name == name


def test_a_broken_record_hides_no_other_run_and_is_named(tmp_path, make_run, capsys):
    folder = make_run("a", "2026-01-01T00:00:00", latest="model_2.pt")
    broken = tmp_path / "rsl_rl" / "reach" / "b"
    broken.mkdir()
    (broken / "run.json").write_text("{", encoding="utf-8")
    assert find_checkpoint("latest", tmp_path, "rsl_rl", "reach")[0].folder == folder
    assert f"{broken / 'run.json'}" in capsys.readouterr().err


def test_what_cannot_be_resumed_is_refused(tmp_path, make_run):
    with pytest.raises(ConfigError, match="no run with a checkpoint"):
        find_checkpoint("latest", tmp_path, "rsl_rl", "reach")
    with pytest.raises(ConfigError, match="expected latest, best, or the path"):
        find_checkpoint("lastest", tmp_path, "rsl_rl", "reach")
    with pytest.raises(ConfigError, match=r"init=pretrained trains it further with PPO, and scripts/play.py"):
        find_checkpoint("pretrained", tmp_path, "rsl_rl", "reach")
    empty = make_run("a", "2026-01-01T00:00:00")
    with pytest.raises(ConfigError, match="has no checkpoint"):
        find_checkpoint(str(empty), tmp_path, "rsl_rl", "reach")
    stranger = tmp_path / "stranger.pt"
    stranger.touch()
    with pytest.raises(ConfigError, match=rf"^resume={stranger} is not a checkpoint of a run"):
        find_checkpoint(str(stranger), tmp_path, "rsl_rl", "reach")


def test_runs_without_a_checkpoint_are_named_before_an_older_one_is_taken(tmp_path, make_run, capsys):
    older = make_run("a", "2026-01-01T00:00:00", latest="model_1.pt")
    newer = make_run("b", "2026-01-02T00:00:00")
    assert find_checkpoint("latest", tmp_path, "rsl_rl", "reach")[0].folder == older
    assert capsys.readouterr().err == f"resume=latest: {newer} has no checkpoint (running)\n"


DAMAGES = {
    "empty": lambda content: b"",
    "garbage": lambda content: os.urandom(len(content)),
    "a flipped bit in the weights": lambda content: content.replace(b"\x00\x80\x00D", b"\x00\x81\x00D", 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("resume", ["latest", "best", "folder"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, make_run, capsys, damage, resume):
    folder = make_run("a", "2026-01-01T00:00:00", latest="model_2.pt", best="model_2.pt")
    newest = folder / "checkpoints" / "model_2.pt"
    content = newest.read_bytes()
    older = folder / "checkpoints" / "model_1.pt"
    older.write_bytes(content)
    os.utime(older, (1, 1))
    assert damage(content) != content
    newest.write_bytes(damage(content))

    asked = str(folder) if resume == "folder" else resume
    assert find_checkpoint(asked, tmp_path, "rsl_rl", "reach")[1] == older
    assert str(newest) in capsys.readouterr().err
    # Whoever names a file means that one; it is refused where it is read.
    assert find_checkpoint(str(newest), tmp_path, "rsl_rl", "reach")[1] == newest


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(tmp_path, make_run):
    folder = make_run("a", "2026-01-01T00:00:00", latest="model_2.pt", best="model_1.pt")
    for file in folder.glob("checkpoints/*.pt"):
        file.write_bytes(b"")
    with pytest.raises(ConfigError, match="is not a checkpoint of isaaclab_pc"):
        find_checkpoint("latest", tmp_path, "rsl_rl", "reach")


def test_where_another_library_has_runs_it_is_named(tmp_path, make_run):
    make_run("a", "2026-01-01T00:00:00", latest="model_2.pt", runner="skrl")
    with pytest.raises(ConfigError, match=r"rsl_rl/reach holds no run with a checkpoint; give runner=skrl, of which"):
        find_checkpoint("latest", tmp_path, "rsl_rl", "reach")

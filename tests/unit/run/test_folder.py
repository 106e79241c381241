# SPDX-License-Identifier: BSD-3-Clause
"""Folders of runs: one each, whoever starts at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.folder import experiment_name, locked, make_run_folder
from tests.no_locks import without_locks

SETTINGS = compose()


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr("isaaclab_pc.run.folder.LOGS", tmp_path)


def test_runs_that_start_together_get_folders_of_their_own(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: make_run_folder(SETTINGS), range(24)))
    assert len(set(folders)) == 24
    assert all(folder.is_dir() and folder.parent == tmp_path / "rsl_rl" / "reach" for folder in folders)


def test_a_cluster_jobs_id_is_part_of_the_folders_name(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert make_run_folder(SETTINGS).name.endswith("_4711_3")


def test_a_job_that_was_requeued_finds_its_folder():
    folder = make_run_folder(SETTINGS, "2026-01-02_03-04-05_4711_3")
    (folder / "run.json").touch()
    assert make_run_folder(SETTINGS, "2026-01-02_03-04-05_4711_3") == folder
    assert (folder / "run.json").exists()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (["task=reach"], "reach"),
        (["task=reach", "obs=depth"], "reach_depth"),
        (["task=open_drawer", "obs=state"], "open_drawer_state"),
    ],
)
def test_the_experiments_name_tells_observations_apart(settings, name):
    assert experiment_name(compose(settings)) == name


def test_a_folder_is_locked_until_its_run_has_ended(tmp_path):
    with locked(tmp_path), pytest.raises(ConfigError, match=f"^{tmp_path} "), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_where_no_folder_and_no_lock_can_be_made_it_is_refused_by_its_path(tmp_path, monkeypatch):
    (tmp_path / "rsl_rl").touch()
    with pytest.raises(ConfigError, match=f"^{tmp_path}/rsl_rl/reach "):
        make_run_folder(SETTINGS)
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/rsl_rl/\.lock "):
        locked(tmp_path / "rsl_rl").__enter__()
    without_locks(monkeypatch)
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/\.lock "):
        locked(tmp_path).__enter__()


def test_an_error_of_what_is_done_with_the_lock_stays_what_it_is(tmp_path):
    with pytest.raises(OSError, match="training"), locked(tmp_path):
        raise OSError("training")

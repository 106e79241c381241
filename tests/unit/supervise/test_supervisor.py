# SPDX-License-Identifier: BSD-3-Clause
"""Real processes that really die; only what they train is made up."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from filelock import FileLock

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cluster.start import start_command
from isaaclab_pc.run import jobs
from isaaclab_pc.run.folder import WORKER_LOCK
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.supervise import oom_watch, supervisor, watch
from isaaclab_pc.supervise.deaths import DeathCause
from isaaclab_pc.supervise.supervisor import supervise
from tests.unit.supervise import fake_trainer
from tests.unit.supervise.fake_trainer import LAST
from tests.waiting import signal_us_when, wait_until

ROOT = Path(__file__).parents[3]
FAKE = (sys.executable, fake_trainer.__file__)


class Run:
    """A run whose processes go wrong as they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        self.root = folder

    def start(self, *faults: str, settings: Sequence[str] = ()) -> int:
        (self.root / "faults").write_text("\n".join(faults), encoding="utf-8")
        self.folder.mkdir()
        composed = compose(["num_envs=256", "device=cpu", *settings])
        composed.save(self.folder / "config.yaml")
        self.record = RunRecord.create(self.folder, composed)
        code, self.death = supervise(self.record, TrainJob(composed), start_command)
        return code

    def starts(self) -> list[list]:
        """Number of environments, physics step, checkpoint and chunk of each process."""
        return [json.loads(line) for line in (self.root / "starts").read_text(encoding="utf-8").splitlines()]

    def events(self) -> list[dict]:
        path = self.folder / "events.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def has_reached(heartbeat: Path, iteration: int) -> bool:
    return heartbeat.exists() and f'"iteration": {iteration}' in heartbeat.read_text(encoding="utf-8")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "PROGRAM", FAKE)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(watch, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(oom_watch, "free_host_memory", lambda: 8 << 30)
    return Run(tmp_path)


@pytest.mark.parametrize(
    ("fault", "cause", "detail"),
    [
        ("kill", "killed", "ended by SIGKILL"),
        ("segfault", "crashed", "ended by SIGSEGV"),
        ("lost", "GPU lost", "CUDA error: unspecified launch failure"),
    ],
)
def test_a_process_that_dies_is_replaced_and_goes_on_from_its_last_checkpoint(run, capfd, fault, cause, detail):
    assert run.start(f"{fault}@5") == 0
    data = run.record.data
    assert (data.status, data.completed_iterations) == ("completed", LAST)
    assert [start[:3] for start in run.starts()] == [[256, None, None], [256, None, "model_3.pt"]]
    (entry,) = data.restarts
    assert (entry.cause, entry.detail, entry.iteration, entry.from_iteration, entry.note) == (cause, detail, 5, 3, "")
    said = capfd.readouterr().err
    assert f"({cause}: {detail})" in said
    assert "model_3.pt" in said
    died, restart, recovered = run.events()
    assert (died["event"], died["cause"], died["iteration"]) == ("died", cause, 5)
    assert (restart["event"], restart["lost_iterations"]) == ("restart", 2)
    assert (recovered["event"], recovered["seconds"] < 30) == ("recovered", True)


@pytest.mark.parametrize(
    ("faults", "settings", "code", "starts"),
    [
        (["ok"], [], 0, [(256, None, None)]),
        # Before the first checkpoint it begins anew.
        (["kill@2", "segfault@0"], [], 0, [(256, None, None)] * 3),
        # A damaged checkpoint costs one interval; where all are damaged, nothing is begun anew.
        (["damage@7"], [], 0, [(256, None, None), (256, "model_6.pt", None)]),
        (["damage@2"], [], 137, [(256, None, None)]),
        (["oom@5", "oom@0"], [], 0, [(256, None, None), (128, "model_3.pt", None), (64, "model_3.pt", None)]),
        # An update that lacks memory gets a smaller chunk before there are fewer environments.
        (
            ["update_oom@5", "update_oom@0", "oom@0"],
            [],
            0,
            [(256, None, None), (256, "model_3.pt", 128), (256, "model_3.pt", 64), (128, "model_3.pt", 64)],
        ),
        (["bug@5"], [], 1, [(256, None, None)]),
        (["segfault@2"] * 9, ["supervise.max_restarts=2"], 139, [(256, None, None)] * 3),
        # Simulators crash and hang while they close: the run is done.
        ([f"segfault@{LAST + 1}"], [], 0, [(256, None, None)]),
        ([f"stubborn@{LAST + 1}"], ["supervise.stall_timeout=5"], 0, [(256, None, None)]),
    ],
    ids=lambda value: value[0] if value and isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_each_process_takes_the_place_of_the_one_before(run, faults, settings, code, starts):
    assert run.start(*faults, settings=settings) == code
    assert [(num_envs, checkpoint, chunk) for num_envs, _, checkpoint, chunk in run.starts()] == starts
    assert len(run.record.data.restarts) == len(starts) - 1
    assert (run.events() == []) == (code == 0 and len(starts) == 1)
    assert run.record.data.num_envs == starts[-1][0]
    assert f"num_envs: {starts[-1][0]}\n" in (run.folder / "config.yaml").read_text(encoding="utf-8")
    assert not (run.folder / "resume.yaml").exists()
    assert run.record.data.status == ("completed" if code == 0 else "running")


def test_what_a_worker_that_outlives_its_launcher_writes_is_waited_for(run):
    def outlive() -> None:
        while not (run.root / "starts").exists():
            time.sleep(0.05)
        record = RunRecord.load(run.folder)
        with FileLock(run.folder / WORKER_LOCK):
            while not run.events():
                time.sleep(0.05)
            time.sleep(0.3)
            record.finish("interrupted")

    worker = threading.Thread(target=outlive)
    worker.start()
    assert run.start("kill@5") == 0
    worker.join()
    assert (run.record.data.status, len(run.record.data.restarts)) == ("completed", 1)


def test_a_run_that_went_on_from_an_older_checkpoint_does_not_come_back_to_a_newer_one(run):
    assert run.start("kill@10", settings=("supervise.max_restarts=0",)) == 137
    checkpoint = run.folder / "checkpoints" / "model_3.pt"
    run.record.go_on(checkpoint)
    (run.root / "faults").write_text("kill@4\nok", encoding="utf-8")
    settings = compose(["num_envs=256", "device=cpu"])
    assert supervise(run.record, TrainJob(settings, checkpoint), start_command)[0] == 0
    assert [start[2] for start in run.starts()] == [None, "model_3.pt", "model_3.pt"]


@pytest.mark.parametrize(("recent", "cause", "num_envs"), [(60.0, "out of memory", 128), (0.2, "killed", 256)])
def test_what_the_kernel_killed_long_before_has_nothing_to_do_with_a_death(run, monkeypatch, recent, cause, num_envs):
    # It kills something as the process begins, which dies a second later.
    group = SimpleNamespace(oom_kills=lambda: int((run.root / "starts").exists()))
    monkeypatch.setattr(oom_watch, "memory_cgroups", lambda: [group])
    monkeypatch.setattr(oom_watch, "RECENT_SECONDS", recent)
    assert run.start("kill@5") == 0
    assert [entry.cause for entry in run.record.data.restarts] == [cause]
    assert run.record.data.num_envs == num_envs


@pytest.mark.parametrize(
    ("tells", "last", "cause", "detail"),
    [
        (True, 256, "killed", "ended by SIGKILL"),
        (False, 128, "out of memory", "ended by SIGKILL, twice without an iteration in between"),
    ],
)
def test_killed_twice_without_an_iteration(run, monkeypatch, capfd, tells, last, cause, detail):
    group = SimpleNamespace(oom_kills=lambda: 0 if tells else None)
    for module in (supervisor, oom_watch):
        monkeypatch.setattr(module, "memory_cgroups", lambda: [group])
    assert run.start("kill@5", "kill@0") == 0
    assert [start[0] for start in run.starts()] == [256, 256, last]

    entry = run.record.data.restarts[-1]
    assert (entry.cause, entry.detail) == (cause, detail)
    assert [event["cause"] for event in run.events() if event["event"] == "died"] == ["killed", cause]
    assert f"({cause}: {detail})" in capfd.readouterr().err


def test_memory_that_another_program_took_changes_nothing_until_it_is_not_given_back(run, monkeypatch):
    def free():
        taken = 3 if (run.root / "starts").exists() else 0
        return (8 - taken) << 30

    monkeypatch.setattr(oom_watch, "free_host_memory", free)
    assert run.start("oom@5", "oom@0") == 0
    assert [start[0] for start in run.starts()] == [256, 256, 128]
    first, second = run.record.data.restarts
    assert (first.note, first.num_envs, first.taken_by_others) == ("", 256, 3 << 30)
    assert (second.num_envs, second.taken_by_others) == (256, 0)


def test_a_storm_is_followed_by_harder_physics_where_the_user_allows_it(run):
    assert run.start("storm@4", settings=("supervise.harden_physics=true",)) == 0
    assert [start[1] for start in run.starts()] == [None, 1 / 240]


def test_it_says_why_it_gives_up(run, capfd):
    assert run.start("damage@2") == 137
    assert "model_2.pt" in run.death.detail
    assert [event["event"] for event in run.events()] == ["died"]
    shutil.rmtree(run.folder)
    assert run.start("kill@4", "kill@4", settings=["supervise.max_restarts=1"]) == 137
    assert run.events()[-1] == {**run.events()[-1], "event": "gave up", "restarts": 1}
    assert "supervise.max_restarts=1" in capfd.readouterr().err


@pytest.mark.parametrize(("fault", "stacks"), [("hang", True), ("stubborn", False)])
def test_a_process_that_hangs_shows_its_stacks_and_is_replaced(run, capfd, monkeypatch, fault, stacks):
    monkeypatch.setattr(watch, "_DUMP_SECONDS", 0.5)
    assert run.start(f"{fault}@4", settings=("supervise.stall_timeout=5",)) == 0
    (entry,) = run.record.data.restarts
    assert (entry.cause, entry.from_iteration) == ("hung", 3)
    for part in (" 5 s ", "train", "iteration 4"):
        assert part in entry.detail
    assert ("in go_wrong" in capfd.readouterr().err) == stacks


def test_a_leak_is_met_by_a_checkpoint_and_a_restart(run, monkeypatch):
    def must_act(self, limit, seconds_to_end):
        assert limit > 1 << 20
        return not run.leaked and self._seen == 3 and (run.__dict__.update(leaked=True) or True)

    run.leaked = False
    monkeypatch.setattr(watch.LeakWatch, "must_act", must_act)
    assert run.start("slow@0") == 0
    (entry,) = run.record.data.restarts
    assert entry.cause == "memory leak"
    assert "host" in entry.detail
    assert entry.from_iteration == entry.iteration >= 3, "it has written a checkpoint"


def test_settings_that_a_restart_refuses_end_the_run_and_leave_it_as_it_was(run):
    assert run.start("oom@5", "refuse") == 2
    assert run.death.cause is DeathCause.ERROR
    assert "num_envs: 256" in (run.folder / "config.yaml").read_text(encoding="utf-8")
    assert not (run.folder / "job.json").exists()


def test_a_signal_while_it_waits_for_a_restart_ends_the_run(run, monkeypatch):
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 30.0)
    with signal_us_when(lambda: any(event["event"] == "restart" for event in run.events()), signal.SIGUSR1):
        assert run.start("kill@4") == 128 + signal.SIGUSR1
    assert len(run.starts()) == 1
    assert run.events()[-1]["signal"] == "SIGUSR1"


@pytest.mark.parametrize(
    ("fault", "settings", "said"),
    [
        # It hangs, crashes as it closes, or dies of something else before.
        ("stubborn", ["supervise.stall_timeout=3"], ""),
        ("unclean", [], ""),
        ("late_lose_rank", [], "(killed: "),
        ("late_oom", [], "(out of memory: "),
    ],
)
def test_a_process_that_was_told_to_stop_was_stopped(run, capfd, monkeypatch, fault, settings, said):
    monkeypatch.setattr(watch, "_DUMP_SECONDS", 0.5)
    with signal_us_when(lambda: has_reached(run.folder / "heartbeat.json", 4), signal.SIGTERM):
        assert run.start(f"{fault}@4", settings=settings) == 128 + signal.SIGTERM
    assert run.death is None
    assert (len(run.starts()), run.record.data.restarts) == (1, [])
    (stopped,) = run.events()
    assert (stopped["event"], stopped["signal"]) == ("stopped", "SIGTERM")
    assert stopped["iteration"] == run.record.data.completed_iterations >= 4
    assert said in capfd.readouterr().err


def test_an_error_of_the_program_after_a_signal_is_an_error(run):
    with signal_us_when(lambda: has_reached(run.folder / "heartbeat.json", 4), signal.SIGTERM):
        assert run.start("late_bug@4") == 1
    assert run.death.cause is DeathCause.ERROR


def test_nothing_is_left_of_a_process_that_is_killed_with_its_supervisor(run):
    (run.root / "faults").write_text("hang@4", encoding="utf-8")
    run.folder.mkdir()
    settings = compose(["num_envs=256", "device=cpu"])
    settings.save(run.folder / "config.yaml")
    RunRecord.create(run.folder, settings)
    driver = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path;"
        "from tests.unit.supervise.test_supervisor import FAKE; from isaaclab_pc.supervise.supervisor import supervise;"
        "from isaaclab_pc.run import jobs; from isaaclab_pc.run.record import RunRecord;"
        "from isaaclab_pc.settings import RunSettings; jobs.PROGRAM = FAKE;"
        "job = jobs.TrainJob(RunSettings.load(Path('run/config.yaml')));"
        "from isaaclab_pc.cluster.start import start_command;"
        "supervise(RunRecord.load(Path('run')), job, start_command)"
    )
    process = subprocess.Popen([sys.executable, "-c", driver], cwd=run.root)
    wait_until(lambda: has_reached(run.folder / "heartbeat.json", 4), alive=process)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.kill()
    process.wait()
    assert psutil.wait_procs(family, timeout=10)[1] == []
    assert json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["status"] == "interrupted"

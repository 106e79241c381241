# SPDX-License-Identifier: BSD-3-Clause
"""Trials with real children that behave badly: the right outcome, an honest meter, and no process left."""

import mmap
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isaaclab_pc.num_envs import trial_runner
from isaaclab_pc.num_envs.gpu import Gpu, GpuUse
from isaaclab_pc.num_envs.trial import Outcome, Progress, TrainingPhase, Trial
from isaaclab_pc.num_envs.trial_runner import Budgets, run_trial
from isaaclab_pc.processes import process_tree
from isaaclab_pc.processes.output_filter import FLOOD
from tests.waiting import is_gone, signal_us_when, wait_until

MIB = 1 << 20
ROOMY = Budgets(host=2 << 30, seconds=20.0)

PRELUDE = """
import json, mmap, os, signal, subprocess, sys, time
def fits(**more):
    with open(sys.argv[1] + ".tmp", "w") as file:
        json.dump({"num_envs": 64, "outcome": "fits", "frames_per_second": 100, **more}, file)
    os.replace(sys.argv[1] + ".tmp", sys.argv[1])
def tell(path, *pids):
    with open(path + ".tmp", "w") as file:
        print(*pids, file=file)
    os.replace(path + ".tmp", path)
def allocate(mib):
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, mib << 20, 4096):
        memory[page] = 1
    return memory
"""


Run = Callable[..., Trial]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a probe child from source code."""

    def run(code: str, budgets: Budgets = ROOMY, gpu: Gpu | None = None, **more: Any) -> Trial:
        result, log = tmp_path / "trial.json", tmp_path / "probe.log"
        argv = [sys.executable, "-I", "-S", "-c", PRELUDE + code, str(result)]
        return run_trial(argv, 64, result, log, budgets, gpu, **more)

    return run


def test_child_that_trains_inside_the_budget_fits(run: Run, tmp_path: Path) -> None:
    trial = run("print('hello', flush=True); time.sleep(0.1); fits(seconds={'build': 1.5}, faults=17)")
    log = tmp_path / "probe.log"
    said = Trial(64, Outcome.FITS, 100.0, seconds={"build": 1.5}, faults=17, host_budget=ROOMY.host, log=str(log))
    assert replace(trial, host_bytes=0, wall_seconds=0.0) == said
    assert 1 * MIB < trial.host_bytes < 100 * MIB
    assert 0.1 < trial.wall_seconds < 20
    assert log.read_text() == "hello\n"


@pytest.mark.parametrize("mib", [64, 300])
def test_peak_of_host_memory_is_metered_within_a_few_percent(run: Run, mib: int) -> None:
    def peak_of(mib: int) -> int:
        return run(f"memory = allocate({mib}); time.sleep(0.3); memory.close(); time.sleep(0.1); fits()").host_bytes

    # What Python itself takes cancels out. The smaller child is larger than the program that starts it, which takes
    # more than a bare Python and is metered only when a look comes early enough.
    assert peak_of(32 + mib) - peak_of(32) == pytest.approx(mib * MIB, rel=0.03)


BUILD = """
def phase(name):
    path = sys.argv[1].replace(".json", ".phase")
    with open(path, "w") as file:
        json.dump({"phase": name, "minibatch_size": 64}, file)
phase("build")
"""


HANGS = "time.sleep(30)"


@pytest.mark.parametrize(
    ("code", "seconds", "build_seconds", "outcome", "detail", "trains"),
    [
        (BUILD + "time.sleep(2.5); phase('rollout'); time.sleep(0.2); fits()", 2.0, 60.0, Outcome.FITS, "", True),
        (BUILD + "time.sleep(2.5); phase('rollout')", 0.6, None, Outcome.TIMEOUT, "not done after 1 s", False),
        (BUILD + f"phase('rollout'); {HANGS}", 0.6, 60.0, Outcome.TIMEOUT, "not done after 1 s", True),
        (BUILD + HANGS, 20.0, 0.7, Outcome.TIMEOUT, "not built after 1 s", False),
        (HANGS, 20.0, 0.7, Outcome.TIMEOUT, "not built after 1 s", False),
    ],
)
def test_a_build_may_have_a_time_limit_of_its_own(
    run: Run,
    code: str,
    seconds: float,
    build_seconds: float | None,
    outcome: Outcome,
    detail: str,
    trains: bool,
) -> None:
    calls: list[str] = []
    budgets = Budgets(host=2 << 30, seconds=seconds, build_seconds=build_seconds)
    trial = run(code, budgets, on_training=lambda: calls.append("training"))
    assert (trial.outcome, trial.detail) == (outcome, detail)
    assert calls == ["training"] * trains


def test_peak_between_two_looks_is_metered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_runner, "INTERVAL", 0.5)
    trial = run("allocate(200).close(); fits(); time.sleep(0.8)")
    assert trial.host_bytes == pytest.approx(200 * MIB, rel=0.1)


def test_memory_that_children_share_counts_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine a full look is costly, and the next one would come after the child's end.
    monkeypatch.setattr(process_tree, "_LOOK_SHARE", 1.0)
    trial = run("""
told, tells = os.pipe()
shared = allocate(100)
if os.fork() == 0:
    own = allocate(50)
    if os.fork() == 0:
        own = (own, allocate(50))
        os.write(tells, b"up")
    time.sleep(60)
os.read(told, 2)
time.sleep(1)
fits()
""")
    assert trial.host_bytes == pytest.approx(200 * MIB, rel=0.15)


def test_memory_that_is_shared_with_strangers_counts_in_full(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(bytes(100 * MIB))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as ours:
        assert sum(ours[:: mmap.PAGESIZE]) == 0
        trial = run(f"""
with open({str(path)!r}, "r+b") as file:
    shared = mmap.mmap(file.fileno(), 0)
assert sum(shared[:: mmap.PAGESIZE]) == 0
time.sleep(0.5)
fits()
""")
    # The stranger may end, and then the child alone holds it.
    assert trial.host_bytes > 100 * MIB


@pytest.mark.parametrize(
    "code",
    [
        "blocks = []\nwhile True: blocks.append(allocate(8)); time.sleep(0.005)",
        pytest.param("memory = allocate(200); fits(); time.sleep(10)", id="whatever it writes"),
    ],
)
def test_child_that_passes_the_budget_is_ended_soon_after(run: Run, code: str) -> None:
    trial = run(code, Budgets(host=150 * MIB, seconds=20.0))
    assert trial.outcome is Outcome.OVER_BUDGET
    assert "150.0 MiB" in trial.detail
    assert 150 * MIB < trial.host_bytes < 500 * MIB


@pytest.mark.parametrize(
    ("code", "outcome", "detail"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", Outcome.CRASH, "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", Outcome.OOM, "SIGKILL"),
        ("raise MemoryError", Outcome.OOM, "MemoryError"),
        ("raise ValueError('K is larger than H*W')", Outcome.ERROR, "ValueError: K is larger than H*W"),
        ("os._exit(3)", Outcome.ERROR, "exit code 3"),
        ("print('Contact buffer overflow detected, please'); sys.exit(1)", Outcome.ERROR, "exit code 1"),
        ("os._exit(0)", Outcome.ERROR, "result"),
        ("open(sys.argv[1], 'w').write('garbage')", Outcome.ERROR, "JSON"),
        ("fits(num_envs=65)", Outcome.ERROR, "num_envs=65"),
        ("fits(frames_per_second=float('nan'))", Outcome.ERROR, "frames_per_second"),
        ("fits(outcome='error', detail='CUDA out of memory')", Outcome.OOM, "CUDA out of memory"),
        ("fits(outcome='error', detail='bad shapes')", Outcome.ERROR, "bad shapes"),
        ("os.write(1, bytes(range(256)) * 4000); fits()", Outcome.FITS, ""),
        ("fits(); os.kill(os.getpid(), signal.SIGSEGV)", Outcome.FITS, ""),
    ],
)
def test_end_of_a_child_is_told_apart(run: Run, code: str, outcome: Outcome, detail: str) -> None:
    trial = run(code)
    assert (trial.outcome, trial.num_envs) == (outcome, 64)
    assert detail in trial.detail
    assert bool(trial.detail) == bool(detail)


@pytest.mark.parametrize("written", ["fits", "overflow"])
def test_training_while_physx_drops_contacts_is_an_overflow(run: Run, written: str) -> None:
    line = "Patch buffer overflow detected, please increase its size to at least 219146 in the scene desc!"
    trial = run(f"print({line!r}, flush=True); fits(outcome={written!r}, contacts=None)")
    assert (trial.outcome, trial.detail, trial.frames_per_second) == (Outcome.OVERFLOW, line, 0.0)
    assert trial.physx_buffers == {"gpu_max_rigid_patch_count": 219146}


@pytest.mark.parametrize(
    ("written", "progress"),
    [
        ('{"phase": "update", "minibatch_size": 512}', Progress(TrainingPhase.UPDATE, 512)),
        ('{"phase": "update", "minibatch_size": 512', None),
        ('{"phase": "lunch", "minibatch_size": 512}', None),
        ('{"phase": "update", "minibatch_size": 0}', None),
    ],
)
def test_progress_of_a_child_that_is_killed(run: Run, written: str, progress: Progress | None) -> None:
    trial = run(f"""
with open(os.path.splitext(sys.argv[1])[0] + ".phase", "w") as file:
    file.write({written!r})
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert (trial.outcome, trial.progress) == (Outcome.OOM, progress)


def test_child_that_has_written_its_trial_is_ended_at_once(run: Run, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    trial = run(f"fits(); time.sleep(60); open({str(closed)!r}, 'w')", Budgets(2 << 30, seconds=20.0))
    assert trial.outcome is Outcome.FITS
    assert trial.wall_seconds < 10
    assert not closed.exists()


def test_child_that_writes_its_trial_slowly_is_not_ended_before_it_stands_there(run: Run) -> None:
    trial = run("""
with open(sys.argv[1], "w") as file:
    for part in ('{"num_envs": 64, ', '"outcome": "fits"', "}"):
        file.write(part)
        file.flush()
        time.sleep(0.2)
""")
    assert (trial.outcome, trial.detail) == (Outcome.FITS, "")


def test_peak_before_the_result_is_metered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a machine where looking at several processes is costly.
    monkeypatch.setattr(process_tree, "_LOOK_SHARE", 1e-6)
    trial = run("""
if os.fork() == 0:
    time.sleep(60)
time.sleep(0.5)
memory = allocate(200)
fits()
time.sleep(60)
""")
    assert trial.host_bytes > 200 * MIB


def test_result_of_an_earlier_trial_is_not_taken_for_this_one(run: Run, tmp_path: Path) -> None:
    Trial(64, Outcome.FITS).write(tmp_path / "trial.json")
    assert run("os._exit(7)").outcome is Outcome.ERROR


def test_program_that_does_not_exist_is_an_error_that_names_it(tmp_path: Path) -> None:
    trial = run_trial(["/no/such/program"], 64, tmp_path / "trial.json", tmp_path / "log", ROOMY)
    assert trial.outcome is Outcome.ERROR
    assert "/no/such/program" in trial.detail


def test_what_a_child_leaves_behind_is_ended_even_as_daemons(run: Run, tmp_path: Path) -> None:
    trial = run(f"""
for escape in 7 * ("pass", "os.setsid()", "os.setsid(); os.fork() and os._exit(0)"):
    if os.fork() == 0:
        exec(escape)
        open({str(tmp_path)!r} + "/up-" + str(os.getpid()), "w").close()
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
while sum(name.startswith("up-") for name in os.listdir({str(tmp_path)!r})) < 21:
    time.sleep(0.01)
fits()
os._exit(0)
""")
    assert trial.fits
    pids = [int(path.name.removeprefix("up-")) for path in tmp_path.glob("up-*")]
    assert len(pids) == 21
    assert [pid for pid in pids if not is_gone(pid)] == []


@pytest.mark.usefixtures("no_garbage_collection")
def test_no_process_is_left_when_the_user_interrupts(run: Run, tmp_path: Path) -> None:
    up = tmp_path / "up"
    with pytest.raises(KeyboardInterrupt), signal_us_when(up.exists):
        run(f"""
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
tell({str(up)!r}, os.getpid(), sleeper.pid)
time.sleep(60)
""")
    pids = [int(pid) for pid in up.read_text().split()]
    assert len(pids) == 2
    assert [pid for pid in pids if not is_gone(pid)] == []


def test_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    up = tmp_path / "up"
    child = f"{PRELUDE}\ntell({str(up)!r}, os.getpid()); time.sleep(60)"
    parent = f"""
import sys
from pathlib import Path
from isaaclab_pc.num_envs.trial_runner import Budgets, run_trial
child = [sys.executable, "-c", {child!r}]
run_trial(child, 64, Path({str(tmp_path / "result")!r}), Path({str(tmp_path / "log")!r}), Budgets(1 << 30))
"""
    process = subprocess.Popen([sys.executable, "-c", parent])
    wait_until(up.exists, alive=process)
    pid = int(up.read_text())
    assert not is_gone(pid)
    process.kill()
    process.wait()
    wait_until(lambda: is_gone(pid), seconds=30)  # by itself it would end later


class FakeGpu:
    """A GPU on which the tree's memory grows with every look, or others take some."""

    def __init__(self, others: int = 0, peak: int | None = None, grows: int = 0) -> None:
        self.others, self.peak, self.grows = others, peak, grows
        self.pids: list[int] = []

    def start(self) -> None:
        self.used = 0

    def sample(self, pids: list[int]) -> int:
        self.pids = pids or self.pids
        self.used += self.grows
        return self.used

    def finish(self) -> GpuUse:
        assert all(is_gone(pid) for pid in self.pids)
        return GpuUse(self.used if self.peak is None else self.peak, "card", self.others)


DEVICE = Budgets(host=1 << 30, device=450 * MIB, seconds=20.0)


@pytest.mark.parametrize(
    ("others", "peak", "taken"),
    # The last two: others passed the budget with their own memory, or the child did.
    [(0, None, 0), (400 * MIB, 100 * MIB, 400 * MIB), (400 * MIB, 480 * MIB, 0)],
)
def test_child_that_passes_the_gpu_budget_is_ended(run: Run, others: int, peak: int | None, taken: int) -> None:
    gpu = FakeGpu(others, peak, grows=100 * MIB)
    trial = run("time.sleep(60)", DEVICE, cast(Any, gpu))
    assert trial.outcome is Outcome.OVER_BUDGET
    assert (trial.device_bytes, trial.device_meter) == (peak or 500 * MIB, "card")
    assert (trial.device_budget, trial.taken_by_others) == (DEVICE.device, taken)
    assert "450.0 MiB" in trial.detail
    assert len(gpu.pids) == 1


@pytest.mark.parametrize(("others", "taken"), [(400 * MIB, 400 * MIB), (5 * MIB, 0), (-400 * MIB, 0)])
def test_memory_that_others_took_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, others: int, taken: int) -> None:
    monkeypatch.setattr(trial_runner, "free_host_memory", lambda: 1 << 30)
    code = "fits(outcome='error', detail='CUDA out of memory')"
    trial = run(code, DEVICE, cast(Any, FakeGpu(others=others)))
    assert (trial.outcome, trial.taken_by_others) == (Outcome.OOM, taken)

    free = iter([1 << 30, (1 << 30) - others])
    monkeypatch.setattr(trial_runner, "free_host_memory", lambda: next(free))
    trial = run("raise MemoryError")
    assert (trial.outcome, trial.taken_by_others) == (Outcome.OOM, taken)


def test_what_a_childs_libraries_held_is_the_least_that_it_had(run: Run) -> None:
    memory = {"before_env": 0, "after_env": 0, "held_peak": 200 * MIB}
    for peak, meter in ((150 * MIB, "libraries"), (210 * MIB, "card")):
        trial = run(f"fits(memory={memory})", DEVICE, cast(Any, FakeGpu(peak=peak)))
        assert (trial.device_bytes, trial.device_meter) == (max(peak, 200 * MIB), meter)


def test_kill_counted_by_the_cgroup_is_out_of_memory(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([3, 4])
    monkeypatch.setattr(trial_runner, "memory_cgroups", lambda: [SimpleNamespace(oom_kills=lambda: next(counts))])
    trial = run("sys.exit('a worker died')")
    assert trial.outcome is Outcome.OOM
    assert "cgroup" in trial.detail


def test_a_flood_is_counted_in_the_trial_and_shown_once_in_its_log(run: Run) -> None:
    trial = run("""
for number in range(400):
    os.write(1 + number % 2, b"nefc overflow, increase njmax to %d\\n" % number)
fits()
""")
    assert trial.fits
    assert trial.repeated_lines == (("nefc overflow, increase njmax to 0", 400),)
    assert Path(trial.log).read_text().count("nefc overflow") == FLOOD + 2, "one more than are shown, and the count"

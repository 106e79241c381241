# SPDX-License-Identifier: BSD-3-Clause
"""What only a GPU can show: its tests, starts, speed, memory and learning, in about ten minutes.

    make gpu                                        all parts, to benchmarks/results/gpu-<card>.md and .json
    python benchmarks/gpu.py --part operator rates  some of them
    python benchmarks/gpu.py --device cpu --small   tries the program itself on a CPU; its numbers say nothing
    python benchmarks/gpu.py --next                 the first item of gpu_queue.md that has no result yet

Each part runs in processes of its own. One that fails, takes too long or lacks a package is a line in the report, and
the next one goes on. Each part has a share of the time, and what a part does not need is left to those after it; what
there was no time for is named. What is there is written after each part, so Ctrl-C keeps it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = (
    "isaaclab",
    "newton",
    "mujoco-warp",
    "ovphysx",
    "warp-lang",
    "torch",
    "rsl-rl-lib",
    "rl-games",
    "skrl",
    "stable-baselines3",
)
BACKENDS = {"newton_mjwarp": "newton", "ovphysx": "ovphysx"}
"""Physics backends and the module that each needs."""
SHARES = {
    "operator": 1,
    "encoder": 1,
    "memory": 5,
    "tests": 5,
    "start": 5,
    "syncs": 2,
    "rates": 12,
    "guard": 3,
    "grasp": 4,
    "learning": 22,
}
"""Shares of the parts in the time. Guesses: the parts ran on an H200, but not all in one go."""
LEFT_OUT = "left out, no time was left"
LEAST_SECONDS = 10.0
"""Time that a command needs to be tried at all [s]."""
GRACE_SECONDS = 20.0
"""Time that a command has to end its own child processes [s]."""
TAIL = 20
"""Lines of a failed command's output that the report shows."""


@dataclass(frozen=True)
class Command:
    """One process of a part."""

    name: str
    argv: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Modules without which it is not tried."""
    seconds: float = 120.0
    """When it is ended [s]."""
    environment: dict[str, str] = field(default_factory=dict)
    neighbour: tuple[float, float] | None = None
    """Memory [GiB] that another program takes of the GPU, and when after the start [s]."""


@dataclass
class Outcome:
    """What became of a command."""

    name: str
    command: str
    seconds: float
    state: str
    """passed, failed, not done after some time, left out, or what it lacks."""
    result: dict[str, Any] = field(default_factory=dict)
    """What it measured."""
    output: str = ""
    """The end of what it printed, where it failed."""


def parts(device: str, small: bool, scratch: Path) -> dict[str, list[Command]]:
    """Return the commands of each part.

    Args:
        device: The GPU, or cpu.
        small: Whether sizes are those for a first try.
        scratch: Folder for what the commands write.
    """
    steps = "5" if small else "100"
    # The size that trainings use comes first: time may not do for all.
    sizes = (4,) if small else (4096, 1024, 16384)
    batch = "16" if small else "4096"
    lab = ("isaaclab",)

    def measure(name: str, what: str, *options: str, needs: tuple[str, ...] = (), **rest: Any) -> Command:
        argv = (str(ROOT / "benchmarks" / "gpu_measure.py"), what, "--device", device, "--steps", steps, *options)
        return Command(name, argv, needs, **rest)

    def script(name: str, file: str, *settings: str, **rest: Any) -> Command:
        argv = (str(ROOT / "scripts" / file), "--json", *settings, f"device={device}")
        return Command(name, argv, lab, **rest)

    # A test file whose library is not installed is an error in the report; the others run.
    tests = ("-m", "pytest", "-q", "--continue-on-collection-errors", "-m", "gpu", str(ROOT / "tests"))
    # pytest cuts the reason of a failure to the width of its terminal.
    wide = {"COLUMNS": "240"}
    few = "4" if small else "64"
    few_clouds = ("--num_envs", batch) if small else ()
    cache = {"WARP_CACHE_PATH": str(scratch / "warp")}
    guard = ("--device", device, "--steps", steps, "--obs", "points", "--num_envs", few if small else "4096")
    episodes = (f"episodes={few}", f"num_envs={few}")
    iterations = ("max_iterations=2", "num_envs=8", "eval.episodes=8") if small else ("eval.episodes=512",)
    return {
        "operator": [measure(f"{batch} clouds of 512 points from 64 x 64", "operator", "--num_envs", batch)],
        "encoder": [
            measure(f"a minibatch of the large agent's encoder, {agent}", "encoder", "--agent", agent, *few_clouds)
            for agent in ("ppo", "distill")
        ],
        "memory": [
            measure("a forced lack of memory is recognized", "out_of_memory"),
            *(
                script(f"{size} environments, against NVML", "scale.py", "task=reach", f"num_envs={size}", seconds=200)
                for size in ((4,) if small else (1024, 2048, 4096))
            ),
        ],
        "tests": [
            Command("without a simulator and on Newton", tests, ("pytest", "isaaclab"), seconds=300, environment=wide)
        ],
        "start": [
            measure(name, "first_step", "--num_envs", few, needs=lab, seconds=600, environment=cache)
            for name in ("first step, no kernel compiled yet", "first step, kernels from the cache")
        ],
        "syncs": [measure("waits of the host in a step", "syncs", "--num_envs", few, needs=lab)],
        "rates": [
            measure(
                f"{obs}, {backend}, {size}",
                "rate",
                *("--obs", obs, "--physics", backend, "--num_envs", str(size)),
                needs=("isaaclab", module),
                # Building 16,384 environments takes most of it.
                seconds=300,
            )
            for size in sizes
            for obs in ("points", "state")
            for backend, module in BACKENDS.items()
        ],
        "guard": [Command("guard on and off", (str(ROOT / "benchmarks" / "bench_guard.py"), *guard), lab, seconds=240)],
        "grasp": [
            script(
                f"expert of lift on {backend}",
                "demo.py",
                *("task=lift", f"physics={backend}", *episodes, f"file={scratch / backend}.hdf5"),
            )
            for backend in BACKENDS
        ],
        "learning": [script(task, "train.py", f"task={task}", *iterations, seconds=900) for task in ("reach", "lift")],
    }


def run(command: Command, scratch: Path, seconds: float = float("inf"), device: str = "cpu") -> Outcome:
    """Run a command to its end and keep what it found.

    Args:
        command: What to run.
        scratch: Folder in which it gets one of its own to run in.
        seconds: Time that is left for it [s].
        device: The GPU whose memory is watched where the command meters it, too.
    """
    shown = shlex.join(["python", *(part.replace(f"{ROOT}/", "") for part in command.argv)])
    missing = [name for name in command.needs if importlib.util.find_spec(name) is None]
    if missing:
        return Outcome(command.name, shown, 0.0, f"needs {', '.join(missing)}")
    if seconds < LEAST_SECONDS:
        return Outcome(command.name, shown, 0.0, LEFT_OUT)

    print(f"  {command.name}: {shown}", flush=True)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, **command.environment}
    limit = min(command.seconds, seconds)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    start = time.monotonic()
    watched = watched_memory(device if is_script(command, "scale.py") else "cpu")
    with watched as most_used, beside(command.neighbour, device):
        process = subprocess.Popen(
            [sys.executable, *command.argv],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            output, _ = process.communicate(timeout=limit)
            state = "passed" if process.returncode == 0 else f"failed, exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            output = ended(process)
            state = f"not done after {limit:.0f} s"
        finally:
            process.kill()

    taken = time.monotonic() - start
    print(f"    {state}, {taken:.0f} s", flush=True)
    result = found(command, output, folder)
    if most_used():
        result["GiB that NVML saw, of all processes"] = most_used() / 2**30
        if result.get("trials") == 1:
            result["metered_of_nvml"] = result["device_bytes"] / most_used()
    tail = "\n".join(output.splitlines()[-TAIL:])
    return Outcome(command.name, shown, round(taken, 1), state, result, "" if result and state == "passed" else tail)


def ended(process: subprocess.Popen[str]) -> str:
    """End a command, which ends its own child processes, and return what it printed."""
    process.terminate()
    try:
        return process.communicate(timeout=GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


@contextmanager
def watched_memory(device: str) -> Iterator[Callable[[], int]]:
    """Watch how much of a GPU's memory is used; what is yielded returns the most beyond that at the start [bytes]."""
    if device == "cpu":
        yield lambda: 0
        return

    from isaaclab_pc.num_envs.gpu import Gpu

    gpu = Gpu(device)
    before = gpu.free()
    least = [before]
    stop = threading.Event()

    def watch() -> None:
        while True:
            least.append(min(least.pop(), gpu.free()))
            if stop.wait(0.1):
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: before - least[0]
    finally:
        stop.set()
        thread.join()


@contextmanager
def beside(neighbour: tuple[float, float] | None, device: str) -> Iterator[None]:
    """Let another program take memory of a device while the block runs."""
    if neighbour is None:
        yield
        return
    gib, after = neighbour
    code = (
        f"import time, torch; time.sleep({after}); "
        f"taken = torch.empty(int({gib} * 2**30), dtype=torch.uint8, device={device!r}); time.sleep(3600)"
    )
    program = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        program.kill()
        program.wait(GRACE_SECONDS)


def is_script(command: Command, name: str) -> bool:
    """Tell whether a command is one of ``scripts/``."""
    return Path(command.argv[0]) == ROOT / "scripts" / name


def found(command: Command, output: str, folder: Path) -> dict[str, Any]:
    """Return the JSON object on the last line, or what a script left in the folder that it ran in."""
    if is_script(command, "train.py"):
        return learned(folder)
    objects = list(json_lines(output))
    if "--json" in command.argv:
        files = {what: folder / paths[0] for what, paths in made(objects).items()}
        if not is_script(command, "scale.py"):
            return recorded(files)
        complete = not any("cut short" in str(event.get("text")) for event in objects)
        return {**searched(files), "complete": int(complete)} if "picture" in files else {}
    return objects[-1] if objects and output.rstrip().endswith("}") else {}


def json_lines(output: str) -> Iterator[dict[str, Any]]:
    """Return the JSON objects among the lines of what was printed."""
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def made(events: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the paths that a script's last event names, by what they are."""
    ends = [event for event in events if event.get("kind") == "end"]
    return ends[-1].get("files", {}) if ends else {}


def learned(folder: Path) -> dict[str, Any]:
    """Return what the training in a folder has reached, also if it did not come to its end."""
    from isaaclab_pc.run.record import RunRecord

    runs = sorted(folder.glob("logs/*/*/*/run.json"), key=lambda path: path.stat().st_mtime_ns)
    if not runs:
        return {}
    data = RunRecord.load(runs[-1].parent).data
    evaluations = [(point.wall_s, point.evaluation) for point in data.evaluations]
    if data.evaluation is not None:
        evaluations.append((data.wall_s, data.evaluation))
    first = next((seconds for seconds, each in evaluations if (each.success_rate or 0.0) >= 0.9), None)
    peaks = [trial["device_bytes"] for trial in data.trials if trial["num_envs"] == data.num_envs]
    peak = data.device_peak_bytes
    return {
        "num_envs": data.num_envs,
        "restarts": len(data.restarts),
        "peak_of_trial": peak / peaks[-1] if peak is not None and peaks and peaks[-1] else None,
        "env_steps": data.env_steps,
        "success": data.evaluation and data.evaluation.success_rate,
        "seconds_to_90_percent": first and round(first),
        "evaluations": len(evaluations),
        "seconds": round(data.wall_s),
    }


def searched(files: dict[str, Path]) -> dict[str, Any]:
    """Return what a search for the number of environments has found, and the ledger of that size."""
    folder = files["picture"].parent
    trials = json.loads((folder / "trials.json").read_text(encoding="utf-8"))["trials"]
    ledger = json.loads((folder / "ledger.json").read_text(encoding="utf-8"))
    result = {"num_envs": ledger["num_envs"], "sizes tried": ", ".join(str(trial["num_envs"]) for trial in trials)}
    result |= {f"{entry['kind']} [GiB]": entry["total"] / 2**30 for entry in ledger["entries"]}
    result |= {"trials": len(trials), "search_seconds": sum(trial["wall_seconds"] for trial in trials)}
    peaks = [trial["device_bytes"] for trial in trials if trial["device_bytes"] is not None]
    if not peaks:
        return result
    best = [trial for trial in trials if trial["num_envs"] == ledger["num_envs"] and trial["outcome"] == "fits"][-1]
    return result | {
        "GiB that the search metered, of the largest trial": max(peaks) / 2**30,
        "device_bytes": best["device_bytes"],
        "budget_share": best["device_bytes"] / best["device_budget"],
        "meter": best["device_meter"],
    }


def recorded(files: dict[str, Path]) -> dict[str, Any]:
    """Return how an expert did."""
    from isaaclab_pc.demos.demo_file import DemoFile

    if "demos" not in files:
        return {}
    progress = DemoFile(files["demos"]).progress()
    return {"episodes": progress.attempts, "successes": progress.successes}


def machine(device: str) -> dict[str, str]:
    """Return the card, its driver, and the versions of what ran."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {"card": card(device), "python": platform.python_version(), "commit": git.stdout.strip(), **versions}


def card(device: str) -> str:
    """Return the model, memory and driver of a GPU."""
    if device == "cpu":
        return "cpu, no GPU"
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        which = f"--id={device.partition(':')[2] or 0}"
        answer = subprocess.run([*query, which], capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"device={device}: nvidia-smi does not answer.") from None
    except FileNotFoundError:
        raise SystemExit(f"device={device}: nvidia-smi is not there; --device cpu --small tries the program.") from None
    if answer.returncode != 0:
        raise SystemExit(f"device={device}: {answer.stdout.strip() or answer.stderr.strip()}")
    return answer.stdout.strip()


def report(about: dict[str, str], outcomes: dict[str, list[Outcome]]) -> str:
    """Return the report in Markdown."""
    lines = [f"# {about['card']}", "", f"`{shlex.join(['python', 'benchmarks/gpu.py', *sys.argv[1:]])}`", ""]
    lines += [", ".join(f"{name} {value}" for name, value in about.items() if name != "card") + ".", ""]
    left_out = [f"{part}: {one.name}" for part, done in outcomes.items() for one in done if one.state == LEFT_OUT]
    if left_out:
        lines += [
            "Left out, as there was no time; `--minutes` gives more:",
            "",
            *(f"- {name}" for name in left_out),
            "",
        ]
    for part, done in outcomes.items():
        lines += [f"## {part}", ""]
        for outcome in done:
            lines += [f"**{outcome.name}**: {outcome.state}, {outcome.seconds:.0f} s  ", f"`{outcome.command}`", ""]
            if outcome.result:
                lines += ["| | |", "|---|---:|"]
                lines += [f"| {name} | {shown(value)} |" for name, value in outcome.result.items()] + [""]
            if outcome.output:
                lines += ["```", outcome.output, "```", ""]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a figure as a table shows it."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts and write the report; returns 1 where a command failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(parts("cpu", True, Path()))
    parser.add_argument("--part", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu to try the program (default: cuda:0)")
    parser.add_argument("--small", action="store_true", help="few environments and steps, for a first try")
    parser.add_argument("--minutes", type=float, default=10.0, help="time of all parts together (default: 10)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the report (default: benchmarks/results)")
    parser.add_argument(
        "--next", nargs="?", const=1, type=int, metavar="N", help="the first N open items of gpu_queue.md"
    )
    args = parser.parse_args(argv)
    if args.next is not None:
        from benchmarks.gpu_queue import run_next

        return run_next(args.next, args.device, args.out)

    about = machine(args.device)
    name = "gpu-" + re.sub(r"[^a-z0-9]+", "-", about["card"].split(",")[0].lower()).strip("-")
    args.out.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, list[Outcome]] = {}
    seconds_of_share = 60.0 * args.minutes / sum(SHARES[part] for part in args.part)
    deadline = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="isaaclab_pc-gpu-") as folder:
        scratch = Path(folder)
        commands = parts(args.device, args.small, scratch)
        for part in args.part:
            print(part, flush=True)
            outcomes[part] = []
            deadline += SHARES[part] * seconds_of_share
            for command in commands.get(part, []):
                left = deadline - time.monotonic()
                outcomes[part].append(run(command, scratch, left, args.device))
                record = {
                    "machine": about,
                    "parts": {key: [asdict(one) for one in done] for key, done in outcomes.items()},
                }
                (args.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
                (args.out / f"{name}.md").write_text(report(about, outcomes), encoding="utf-8")

    print(f"written to {args.out / name}.md and .json", flush=True)
    return int(any(one.state.startswith(("failed", "not done")) for done in outcomes.values() for one in done))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

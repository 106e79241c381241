# SPDX-License-Identifier: BSD-3-Clause
"""The queue of what only a GPU can show: ``gpu_queue.md`` says what, ``python benchmarks/gpu.py --next`` runs it.

python benchmarks/gpu_queue.py      which items have a result, and which is the next
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# As a script, it does not find them otherwise.
sys.path.insert(0, str(ROOT))

from benchmarks import gpu  # noqa: E402

QUEUE = ROOT / "benchmarks" / "gpu_queue.md"
RESULTS_NAME = "gpu_queue.jsonl"
COMMITS = ROOT / "benchmarks" / "gpu_commits.txt"
"""The commits of the range, the newest first, for a copy without its repository."""

_COMMAND = re.compile(r"(?:beside (?P<gib>[\d.]+) GiB after (?P<after>[\d.]+) s: )?`(?P<text>[^`]+)`")
_LIMITS = re.compile(r"`(\w+)` ([\d.]*?)\.\.([\d.]*)(?:,|$)")
_NEAR = re.compile(r"`(\w+)` within ([\d.]+) % of (\w+)")


@dataclass(frozen=True)
class Check:
    """Bounds that a figure has to meet."""

    key: str
    """Its name in a command's result."""
    least: float = float("-inf")
    most: float = float("inf")
    of: str = ""
    """Item that gives the figure which the limits multiply; empty: none."""

    def holds(self, results: Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]] = ()) -> bool:
        """Tell whether every command that reports the figure is within the limits, and one does.

        Args:
            results: The results of an item's commands.
            earlier: Those of the item that it is compared with.
        """
        factor = 1.0
        if self.of:
            others = [found[self.key] for found in earlier if found.get(self.key) is not None]
            if not others:
                return False
            factor = float(others[-1])
        values = [found[self.key] for found in results if found.get(self.key) is not None]
        return bool(values) and all(self.least * factor <= float(value) <= self.most * factor for value in values)


@dataclass(frozen=True)
class Item:
    """One row of the queue."""

    name: str
    shows: str
    commands: tuple[gpu.Command, ...]
    minutes: float
    checks: tuple[Check, ...]


def read_queue(text: str, device: str = "cuda:0") -> list[Item]:
    """Read the items.

    Args:
        text: The Markdown of the queue.
        device: Where the commands run.
    """
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    items = []
    for name, shows, commands, minutes, _, passed in rows[2:]:
        seconds = 60.0 * float(minutes)
        made = tuple(_command(shows, match, device, seconds) for match in _COMMAND.finditer(commands))
        items.append(Item(name, shows, made, float(minutes), tuple(_checks(passed))))
    return items


def _command(shows: str, match: re.Match[str], device: str, seconds: float) -> gpu.Command:
    """Make a command as ``gpu.py`` runs it, on a device."""
    program, *rest = shlex.split(match["text"])
    if program.startswith("scripts/"):
        argv = [str(ROOT / program), "--json", *rest, f"device={device}"]
    elif program == "-m":
        argv = [program, *(str(ROOT / part) if part.startswith("tests/") else part for part in rest)]
    else:
        argv = [str(ROOT / program), *rest, "--device", device]
    neighbour = (float(match["gib"]), float(match["after"])) if match["gib"] else None
    return gpu.Command(shows, tuple(argv), seconds=seconds, neighbour=neighbour)


def _checks(text: str) -> Iterator[Check]:
    for key, least, most in _LIMITS.findall(text):
        yield Check(key, float(least or "-inf"), float(most or "inf"))
    for key, percent, item in _NEAR.findall(text):
        yield Check(key, 1.0 - float(percent) / 100.0, 1.0 + float(percent) / 100.0, item)


def commits_since(text: str) -> list[str]:
    """Return the commits that results may come from, the newest first; empty where neither git nor a file tells.

    Args:
        text: The Markdown of the queue, which names the first.
    """
    match = re.search(r"since commit `([0-9a-f]+)`", text)
    assert match is not None
    git = ["git", "-C", str(ROOT), "rev-list", "HEAD", f"^{match[1]}~1"]
    done = subprocess.run(git, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 0:
        return done.stdout.split()
    return COMMITS.read_text(encoding="utf-8").split() if COMMITS.exists() else []


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file, the oldest first; empty where there is none."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def states(items: Sequence[Item], results: Sequence[Mapping[str, Any]], commits: Sequence[str]) -> dict[str, str]:
    """Return what is known of each item at the newest commit: ``passed``, ``failed`` or nothing.

    Args:
        items: The queue.
        results: What was measured, the oldest first.
        commits: Those whose results count, the newest first; none: all count.
    """
    known = dict.fromkeys((item.name for item in items), "")
    for result in results:
        counts = not commits or result["commit"] in commits
        # What failed may be mended by a later commit.
        is_final = result["state"] == "passed" or not commits or result["commit"] == commits[0]
        if counts and is_final and result["item"] in known:
            known[result["item"]] = result["state"]
    return known


def run_item(item: Item, results: Sequence[Mapping[str, Any]], device: str) -> dict[str, Any]:
    """Run the commands of an item; return its result, as a line of the file.

    Args:
        item: The item.
        results: Those of earlier items.
        device: Where it runs.
    """
    print(f"{item.name}: {item.shows}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="isaaclab_pc-gpu-") as folder:
        outcomes = []
        for command in item.commands:
            left = 60.0 * item.minutes - (time.monotonic() - began)
            outcomes.append(gpu.run(command, Path(folder), left, device))
    found = [outcome.result for outcome in outcomes]

    missed = [outcome.state for outcome in outcomes if outcome.state != "passed"]
    for check in item.checks:
        of = [one for result in results if result["item"] == check.of for one in _found(result)]
        if not check.holds(found, of):
            missed.append(check.key)
    return {
        "item": item.name,
        "shows": item.shows,
        "state": "failed" if missed else "passed",
        "missed": missed,
        "seconds": round(time.monotonic() - began, 1),
        "commands": [asdict(outcome) for outcome in outcomes],
    }


def _found(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [command["result"] for command in result["commands"]]


def run_next(count: int, device: str, out: Path) -> int:
    """Run the first items that have no result, and keep what they show.

    Args:
        count: How many.
        device: Where they run.
        out: Folder of the file with the results.

    Returns:
        The exit code: 1 where an item failed.
    """
    text = QUEUE.read_text(encoding="utf-8")
    commits = commits_since(text)
    path = out / RESULTS_NAME
    results = read_results(gpu.RESULTS / RESULTS_NAME)
    if path.resolve() != (gpu.RESULTS / RESULTS_NAME).resolve():
        results += read_results(path)
    items = read_queue(text, device)
    known = states(items, results, commits)
    waiting = [item for item in items if not known[item.name]][:count]
    if not waiting:
        print("every item of the queue has a result")
        return 0

    about = gpu.machine(device)
    out.mkdir(parents=True, exist_ok=True)
    failed = False
    for item in waiting:
        result = run_item(item, results, device)
        result |= {"commit": commits[0] if commits else about["commit"], "machine": about, "date": time.strftime("%F")}
        results.append(result)
        failed |= result["state"] == "failed"
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        missed = f": {', '.join(result['missed'])}" if result["missed"] else ""
        print(f"{item.name}: {result['state']}{missed}, {result['seconds']:.0f} s, written to {path}", flush=True)
    return int(failed)


def main() -> int:
    """Show the queue with what is known of each item."""
    text = QUEUE.read_text(encoding="utf-8")
    items = read_queue(text)
    known = states(items, read_results(gpu.RESULTS / RESULTS_NAME), commits_since(text))
    for item in items:
        print(f"{item.name:>3}  {known[item.name] or 'no result':<9}  {item.minutes:>3g} min  {item.shows}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

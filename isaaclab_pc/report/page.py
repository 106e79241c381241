# SPDX-License-Identifier: BSD-3-Clause
"""Write the page of a run, and the page that compares several."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from isaaclab_pc.packages import installed_versions
from isaaclab_pc.program_name import command_line
from isaaclab_pc.report import sections
from isaaclab_pc.report.comparison import differences, measures, run_names
from isaaclab_pc.report.next_commands import Command, commands, scale_command
from isaaclab_pc.report.read_run import RunFacts, read_run, without_effect
from isaaclab_pc.report.words import shortened

__all__ = ["MOST_RUNS", "REPORT_NAME", "comparison_page", "run_page"]

REPORT_NAME = "report.html"
"""The page's name in the run's folder."""

_SECTIONS = ("result", "seen", "learning", "speed", "memory", "health")
"""Sections of a page that have figures."""

MOST_RUNS = 6
"""Runs that one page compares: so many curves are told apart."""


def run_page(folder: Path) -> str:
    """Make the page of one run.

    Args:
        folder: The run's folder.

    Returns:
        HTML, complete in itself.

    Raises:
        ConfigError: The folder has no record of a run.
    """
    return _render("run.html", _run_page(read_run(folder)))


def comparison_page(folders: Sequence[Path]) -> str:
    """Make a page that compares runs.

    Args:
        folders: Two to :data:`MOST_RUNS` folders of runs.

    Returns:
        HTML, complete in itself.

    Raises:
        ConfigError: A folder has no record of a run.
    """
    return _render("comparison.html", _comparison_page([read_run(folder) for folder in folders]))


def _render(template: str, content: dict[str, Any]) -> str:
    # Late: it takes a while to load, as matplotlib does.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    version = installed_versions(["isaaclab_pc"]).get("isaaclab_pc", "")
    page = environment.get_template(template).render(written=written, version=version, **content)
    # Names in files of others may hold what is no text.
    return page.encode("utf-8", errors="replace").decode("utf-8")


def _run_page(run: RunFacts) -> dict[str, Any]:
    """Return what the page of a run shows, by the names of its template."""
    data = run.data
    figures = _figures(run)
    task = sections.task_name(run)
    return {
        "title": f"{task}, {run.folder.name}",
        "task": task,
        "runner": shortened(data.runner),
        "algorithm": shortened(data.algorithm),
        "status": data.status,
        "summary": sections.summary(run),
        "folder": str(run.folder),
        "tiles": sections.tiles(run),
        "success": _success_bar(run),
        # After the figures, which add what could not be drawn.
        "findings": sections.findings(run),
        "result_rows": sections.result_rows(run),
        "factors": sections.breakdown(run),
        "seen": sections.seen_text(run),
        "has_settings": run.settings is not None,
        "changed": sections.changed_settings(run.settings),
        "others": [
            (row.key, row.value)
            for row in sections.other_settings(run.settings)
            if row.key not in without_effect(run.folder)
        ],
        "facts": sections.what_ran(run),
        "versions": sections.version_rows(run),
        "has_ledger": bool(run.trials or run.ledger),
        "earlier_search": data.earlier_search,
        "scale_command": scale_command(run),
        "has_faults": bool(sections.faults(run)),
        "events": sections.event_rows(run),
        "restarts": sections.restart_rows(run),
        "contacts": sections.contact_text(run),
        "dumps": sections.dump_rows(run),
        "has_checkpoint": data.checkpoints.latest is not None,
        "commands": commands(run),
        **{f"{section}_figures": figures.get(section, []) for section in _SECTIONS},
    }


def _figures(run: RunFacts) -> dict[str, list[Any]]:
    """Draw a run's figures by section; empty where there is nothing to draw."""
    if run.curves is None and not run.trials and not run.events and run.data.evaluation is None and not run.films:
        return {}
    # Late: matplotlib takes a second to load.
    from isaaclab_pc.report import figures

    return {section: getattr(figures, f"{section}_figures")(run) for section in _SECTIONS}


def _success_bar(run: RunFacts) -> dict[str, float] | None:
    """Return where the interval of success begins, how long it is, and the rate itself [%]."""
    success = run.data.evaluation.success if run.data.evaluation is not None else None
    if success is None:
        return None
    left, right, point = (100 * min(max(value, 0.0), 1.0) for value in (success.lower, success.upper, success.rate))
    return {"left": round(left, 2), "width": round(max(right - left, 0.0), 2), "point": round(point, 2)}


def _comparison_page(runs: Sequence[RunFacts]) -> dict[str, Any]:
    """Return what the page that compares runs shows, by the names of its template."""
    # Late: matplotlib takes a second to load.
    from isaaclab_pc.report import figures

    names = run_names([run.folder for run in runs])
    curve_figures = figures.comparing_figures(list(zip(names, runs, strict=True)))
    findings = [
        sections.Finding(finding.kind, f"{name}: {finding.text}")
        for name, run in zip(names, runs, strict=True)
        for finding in sections.findings(run)
    ]
    tasks = dict.fromkeys(sections.task_name(run) for run in runs)
    seeds = {run.data.evaluation.seed for run in runs if run.data.evaluation is not None}
    return {
        "title": f"{len(runs)} runs: {', '.join(tasks)}",
        "runs": runs,
        "names": names,
        "summary": ", ".join(f"{name}: {sections.task_name(run)}" for name, run in zip(names, runs, strict=True)),
        "findings": findings,
        "measures": measures(runs),
        "success_note": "" if len(seeds) == 1 else "The runs were not evaluated with the same seed.",
        "curve_figures": curve_figures,
        "differing": differences([(run.folder, run.data, run.settings) for run in runs]),
        "commands": [
            Command(f"The report of {name}", command_line("report", run.folder))
            for name, run in zip(names, runs, strict=True)
        ],
    }

# SPDX-License-Identifier: BSD-3-Clause
"""Write the page of a run, and the page that compares several. The one template decides what stands where."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from isaaclab_pc.report.read_run import RunFacts, read_run
from isaaclab_pc.report.run_tables import again, commands, differences, findings, measures, setting_rows, task_name
from isaaclab_pc.report.words import duration, local_time, memory, number, percent, share, shortened
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.utils.packages import installed_versions

REPORT_NAME = "report.html"
"""The page's name in the run's folder."""


def run_page(folder: Path) -> str:
    """Make the page of one run as HTML, complete in itself.

    Raises:
        ConfigError: The folder has no record of a run.
    """
    # Late: matplotlib takes a second to load.
    from isaaclab_pc.report.figures import run_figures

    run = read_run(folder)
    rows = setting_rows(run.settings)
    evaluation = run.data.evaluation
    breakdown = evaluation.breakdown if evaluation is not None else ()
    factors = [part for part in breakdown if any(third.success for third in part.thirds)]
    return _render(
        # First: it adds to the findings what cannot be drawn.
        figures=run_figures(run),
        findings=findings(run),
        title=f"{task_name(run)}, {run.folder.name}",
        run=run,
        factors=sorted(factors, key=lambda part: part.spread, reverse=True),
        changed=[row for row in rows if row.is_changed],
        unchanged=[(row.key, row.value) for row in rows if not row.is_changed and row.key not in run.unused],
        scale_command=again(run, "scale", num_envs=run.data.num_envs),
        dumps=[(f"{path.name}: {text}", command_line("replay", f"dump={path}")) for path, text in run.dumps],
        commands=commands(run),
    )


def comparison_page(runs: Sequence[RunFacts]) -> str:
    """Make a page that compares runs as HTML, complete in itself."""
    from isaaclab_pc.report.figures import comparison_figures

    measured = list(map(measures, runs))
    return _render(
        # First: it adds to the findings what cannot be drawn.
        figures=comparison_figures(runs),
        findings=[(is_bad, f"{run.name}: {text}") for run in runs for is_bad, text in findings(run)],
        title=f"{len(runs)} runs: {', '.join(dict.fromkeys(map(task_name, runs)))}",
        run=None,
        runs=runs,
        measures=[(name, *(of_run[name] for of_run in measured)) for name in measured[0]],
        same_seed=len({run.data.evaluation.seed for run in runs if run.data.evaluation is not None}) == 1,
        differing=differences(runs),
        commands=[(f"The report of {run.name}", command_line("report", run.folder)) for run in runs],
    )


def _render(**content: Any) -> str:
    # Late: it takes a while to load, as matplotlib does.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (duration, local_time, memory, number, percent, share, shortened, task_name)
    environment.filters |= {function.__name__: function for function in filters}
    written = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    version = installed_versions(["isaaclab_pc"]).get("isaaclab_pc", "")
    page = environment.get_template("page.html").render(written=written, version=version, **content)
    # Names in files of others may hold surrogates.
    return page.encode("utf-8", errors="replace").decode("utf-8")

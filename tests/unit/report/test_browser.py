# SPDX-License-Identifier: BSD-3-Clause
"""The pages in a real browser: no error on its console, no request, and as wide as the screen."""

import shutil
import subprocess
from pathlib import Path

import pytest

from isaaclab_pc.report.page import comparison_page, run_page
from tests.unit.report.run_folder import edit, make_faulty, make_run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr"),
)

PROBE = """<!DOCTYPE html><title>probe</title><iframe style="border: 0; width: {width}px; height: 900px" src="{page}">
</iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const inside = frame.contentDocument;
  const pictures = [...inside.querySelectorAll("figure svg")].map((svg) => svg.getBoundingClientRect());
  const hidden = pictures.filter((box) => box.width < 200 || box.height < 50).length;
  const stops = inside.querySelectorAll("a, summary, [tabindex='0']").length;
  document.body.textContent = JSON.stringify([inside.documentElement.scrollWidth, pictures.length, hidden, stops]);
}};
</script>"""
"""A page that holds the report as a phone would, and writes down what it finds in it."""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")


def open_page(page: Path, profile: Path, *more: str) -> tuple[str, list[str]]:
    """Open a page; returns what it became, and the lines of the console."""
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", *more, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.timeout(600)
def test_the_pages_open_without_an_error_and_fit_a_phone(tmp_path):
    good = make_run(tmp_path / "good").folder
    faulty = make_faulty(tmp_path / "faulty").folder
    unsearched = make_run(tmp_path / "unsearched", "obs=state", "points.num_points=64", "robot=franka").folder
    edit(unsearched, trials=[])
    pages = {
        "run.html": run_page(faulty),
        "unsearched.html": run_page(unsearched),
        "comparison.html": comparison_page([good, faulty]),
    }
    for name, page in pages.items():
        (tmp_path / name).write_text(page, encoding="utf-8")
        (tmp_path / "probe.html").write_text(PROBE.format(width=360, page=name), encoding="utf-8")
        files = "--allow-file-access-from-files"
        found, console = open_page(tmp_path / "probe.html", tmp_path / "profile", files, "--virtual-time-budget=5000")
        assert console == []
        width, pictures, hidden, stops = map(int, found.partition("[")[2].partition("]")[0].split(","))
        assert width == 360, "nothing sticks out"
        assert pictures == page.count("<figure")
        assert hidden == 0
        assert stops > 2 * pictures, "tables, links and commands are reached with the keyboard"


def test_the_console_tells_of_a_page_that_is_wrong(tmp_path):
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    (tmp_path / "bad.html").write_text(f"<!DOCTYPE html>{policy}<img src='x.png'>", encoding="utf-8")
    _, console = open_page(tmp_path / "bad.html", tmp_path / "profile")
    assert len(console) == 1

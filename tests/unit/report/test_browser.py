# SPDX-License-Identifier: BSD-3-Clause
"""The pages in a real browser: no error on its console, no request, and as wide as the screen."""

from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="needs viser: uv pip install -c constraints.txt -e '.[viz]'")

from isaaclab_pc.report.page import comparison_page, run_page
from isaaclab_pc.report.read_run import read_runs
from tests.unit.report.run_folder import edit, make_faulty, make_run
from tests.unit.viewer.browser import Browser, browser, needs_chromium

PICTURES = """
(() => {
  const boxes = [...document.querySelectorAll("figure svg")].map((svg) => svg.getBoundingClientRect());
  return [boxes.length, boxes.filter((box) => box.width < 200 || box.height < 50).length];
})()
"""
"""All pictures of a page, and those that are hidden."""

pytestmark = needs_chromium


@pytest.fixture
def phone(tmp_path):
    """A window as wide as a phone, which remembers what is asked for."""
    with browser(tmp_path / "profile") as window:
        size = {"width": 360, "height": 900, "deviceScaleFactor": 1, "mobile": True}
        window.call("Emulation.setDeviceMetricsOverride", **size)
        window.call("Network.enable")
        yield window


def open_page(window: Browser, path: Path, page: str) -> None:
    path.write_text(page, encoding="utf-8")
    window.open(path.as_uri())
    window.evaluate("new Promise((loaded) => document.readyState === 'complete' ? loaded() : onload = loaded)")


def test_the_pages_open_without_an_error_or_a_request_and_fit_a_phone(phone, tmp_path):
    good = make_run(tmp_path / "good").folder
    faulty = make_faulty(tmp_path / "faulty").folder
    unsearched = make_run(tmp_path / "unsearched", "obs=state", "points.num_points=64", "robot=franka").folder
    edit(unsearched, trials=[])
    pages = {
        "run.html": run_page(faulty),
        "unsearched.html": run_page(unsearched),
        "comparison.html": comparison_page(read_runs([good, faulty])),
    }
    for name, page in pages.items():
        open_page(phone, tmp_path / name, page)
        assert phone.evaluate("document.documentElement.scrollWidth") == 360, "nothing sticks out"
        pictures, hidden = phone.evaluate(PICTURES)
        assert pictures == page.count("<figure")
        assert hidden == 0
        stops = phone.evaluate("document.querySelectorAll(\"a, summary, [tabindex='0']\").length")
        assert stops > 2 * pictures, "tables, links and commands are reached with the keyboard"
    assert phone.errors == []
    asked = [url for url in phone.requests if not url.startswith("data:")]
    assert asked == [(tmp_path / name).as_uri() for name in pages]


def test_the_browser_tells_of_a_page_that_is_wrong(phone, tmp_path):
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    open_page(phone, tmp_path / "bad.html", f"<!DOCTYPE html>{policy}<img src='x.png'>")
    assert len(phone.errors) == 1
    assert phone.requests == [(tmp_path / name).as_uri() for name in ("bad.html", "x.png")]

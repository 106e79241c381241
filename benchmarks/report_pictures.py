# SPDX-License-Identifier: BSD-3-Clause
"""Draw a run's report for the documentation: the whole page in light and in dark colours, and what the policy saw.

Run ``python benchmarks/report_pictures.py <run folder>`` from the repository's folder. It writes ``report_light.png``,
``report_dark.png`` and ``report_seen.png`` to ``docs/images``, and prints how wide the page is; a page that is wider
than its window is an error. ``--width 390 --out <folder>`` draws it as a phone shows it. It reads the run's folder and
writes nothing there. It needs Chromium, as the tests of the pages do (``apt-get install chromium``).
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

# Of the repository: where this file lies, only its own folder is searched.
sys.path.insert(0, str(Path(__file__).parents[1]))

from isaaclab_pc.report.page import run_page
from tests.unit.viewer.browser import CHROMIUM, Browser, browser

HEIGHT = 900
"""Of the window [pixels]; the pictures are as high as what they show."""

SCALE = 0.75
"""Pixels of a picture for each of the page."""

HIGHEST = 8000
"""Pixels of a picture from its top to its bottom: beyond 8192, Chromium repeats the page."""


def main(argv: Sequence[str]) -> int:
    """Draw the pictures.

    Args:
        argv: Arguments without the program's name.

    Returns:
        0; 1 where the page is wider than the window.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the pictures")
    parser.add_argument("--width", type=int, default=1280, help="width of the window [pixels]")
    args = parser.parse_args(argv)
    if CHROMIUM is None:
        parser.error("there is no Chromium: apt-get install chromium")

    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "report.html"
        page.write_text(run_page(args.run), encoding="utf-8")
        with browser(Path(scratch) / "profile") as window:
            width = draw(window, page, args.out, args.width)
    print(f"the page is {width} pixels wide in a window of {args.width}")
    return 0 if width <= args.width else 1


def draw(window: Browser, page: Path, out: Path, width: int) -> int:
    """Draw a page in both themes, and its section of clouds.

    Args:
        window: A browser.
        page: The file of the page.
        out: Folder of the pictures.
        width: Width of the window [pixels].

    Returns:
        Width of the page [pixels].
    """
    window.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=width < 600
    )
    found = width
    for theme in ("light", "dark"):
        window.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        window.open(page.as_uri())
        window.wait_for("nothing is loaded from a network")
        found = max(found, _evaluate(window, "document.documentElement.scrollWidth"))
        _picture(window, out / f"report_{theme}.png", "document.documentElement")
        if theme == "light":
            _picture(window, out / "report_seen.png", "document.querySelector('#seen')")
    return found


def _picture(window: Browser, path: Path, element: str) -> None:
    """Save what an element shows, all of it."""
    box = f"(r => ({{x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}}))({element}"
    clip = _evaluate(window, f"{box}.getBoundingClientRect())")
    clip["scale"] = min(SCALE, HIGHEST / clip["height"])
    answer = window.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    # Without what is transparent nowhere, and packed well: half the bytes.
    Image.open(io.BytesIO(base64.b64decode(answer["data"]))).convert("RGB").quantize().save(path, optimize=True)


def _evaluate(window: Browser, expression: str) -> Any:
    """Return the value of an expression in the page."""
    return window.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

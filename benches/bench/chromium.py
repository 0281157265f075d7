"""Chromium: where it is, and how long it takes to be of use on a profile."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from .devtools import Browser
from .installation import Say, debian

PAGE = "data:text/html,<title>x</title>"


def program(say: Say) -> str:
    """Chromium's path; installed from Debian's packages when missing."""
    debian([] if shutil.which("chromium") else ["chromium"], say)
    found = shutil.which("chromium")
    if not found:
        raise RuntimeError("chromium is missing and could not be installed")
    return found


def browse(path: str, directory: Path) -> tuple[float, float]:
    """A short session; seconds to the first answer over DevTools, and to the first page."""
    started = time.perf_counter()
    with Browser(path, directory, 300 << 20) as browser:
        browser.call("Browser.getVersion")
        answered = time.perf_counter() - started
        browser.visit(PAGE, "return document.title")
        return answered, time.perf_counter() - started

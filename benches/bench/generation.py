"""A Chromium profile in several generations, each a finished browsing session later.

A directory is complete when `summary.json` is there and its parameters are those asked for;
more generations than asked for do no harm.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import content, tree
from .devtools import Browser
from .web import Web, WebServer

PORT = 18411
FORMAT = 2  # raised when the same parameters would now make another profile
READY = "if (document.readyState === 'loading') await new Promise(r => addEventListener('DOMContentLoaded', r));"


@dataclass(frozen=True)
class Plan:
    """How much browsing makes a profile of `size_mb`."""

    size_mb: int
    generations: int
    seed: int

    @property
    def sites(self) -> int:
        return max(6, self.size_mb // 12)

    @property
    def is_app(self) -> dict[int, bool]:
        return {site: site % 5 == 0 for site in range(self.sites)}

    @property
    def first_pages(self) -> int:
        return max(8, self.size_mb * 84 // 100)

    @property
    def next_pages(self) -> int:
        return max(2, self.size_mb * 9 // 100)

    @property
    def cache_bytes(self) -> int:
        """The HTTP cache's limit: full after the first generation, so that later ones evict."""
        return self.size_mb * 1_000_000 * 65 // 100


def make(plan: Plan, directory: Path, program: str, say: Callable[[str], None]) -> dict[str, Any]:
    parameters = {**asdict(plan), "format": FORMAT}
    summary_path = directory / "summary.json"
    if summary_path.exists():
        summary: dict[str, Any] = json.loads(summary_path.read_text())
        found = summary["parameters"]
        if found["generations"] >= plan.generations and {**found, "generations": plan.generations} == parameters:
            return summary
    tree.remove(directory)
    directory.mkdir(parents=True)
    live = directory / "live"
    web = Web(plan.seed, plan.is_app)
    with _serve(web) as server:
        for number in range(plan.generations):
            started = time.monotonic()
            _browse(plan, number, live, program, web, server)
            shutil.copytree(live, directory / f"gen{number}", symlinks=True)
            say(f"gen{number}: browsed in {time.monotonic() - started:.0f} s")
    tree.remove(live)
    summary = {
        "parameters": parameters,
        "chromium": subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip(),
        "generations": [_describe(directory, number) for number in range(plan.generations)],
    }
    summary_path.write_text(json.dumps(summary, indent=1))
    return summary


def _serve(web: Web) -> WebServer:
    try:
        return WebServer(web, PORT)
    except OSError:
        return WebServer(web, 0)


def _browse(plan: Plan, number: int, live: Path, program: str, web: Web, server: WebServer) -> None:
    web.release = number
    rng = content.source(plan.seed, f"generation {number}")
    first = 0 if number == 0 else plan.first_pages + (number - 1) * plan.next_pages
    count = plan.first_pages if number == 0 else plan.next_pages
    visits = [(page % plan.sites if number == 0 else rng.randrange(plan.sites), page) for page in range(first, first + count)]
    # A person comes back to known pages too, most of them still in the cache.
    recent = range(plan.first_pages // 2, plan.first_pages)
    visits += [(page % plan.sites, page) for page in rng.sample(recent, plan.next_pages * 3 // 8)]
    apps = [site for site in range(plan.sites) if plan.is_app[site]]
    # Not every app is opened in every session.
    used = apps if number == 0 else rng.sample(apps, (3 * len(apps) + 3) // 4)
    with Browser(program, live, plan.cache_bytes) as browser:
        for site, page in visits:
            browser.visit(server.url(site, f"/page/{page}"), f"{READY} return await visit(null);")
        for site in used:
            mail = {"part": number, "bytes": 1_300_000 if number == 0 else 300_000, "blobs": 12 if number == 0 else 3}
            browser.visit(server.url(site, f"/page/{site}"), f"{READY} return await visit({json.dumps(mail)});")
        # The caches write behind; without a pause the last entries stay unfinished.
        time.sleep(3)


def _describe(directory: Path, number: int) -> dict[str, Any]:
    here = directory / f"gen{number}"
    count, size = tree.size(here)
    row: dict[str, Any] = {"files": count, "bytes": size, "solid_zstd3_bytes": tree.solid_bytes(here)}
    if number > 0:
        row |= asdict(tree.change(directory / f"gen{number - 1}", here))
    return row

"""What a checkpoint of a large workspace costs, on a mount and in a directory, beside a copy of the tree by `cp`."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from . import measure, tree
from .pstore import Pstore

PROFILE = "acme/bench"
AIM_PAUSE_MS = 50.0
AIM_ALL_MS = 1000.0
AIM_STORED = 1.2
"""What a hundred checkpoints may add, beside what has changed."""


@dataclass
class Sizes:
    files: int
    bytes: int
    changed: int
    checkpoints: int


@dataclass
class Row:
    """What the checkpoints of one workspace took."""

    method: str
    wall_ms: list[float]
    pause_ms: list[float]
    longest_write_ms: float
    added: int
    changed: int
    copy_ms: float

    def text(self, checkpoints: int) -> str:
        pause = f"{max(self.pause_ms):.1f} ms" if self.pause_ms else "none"
        wall, share = statistics.median(self.wall_ms), self.added / self.changed
        met = max(self.pause_ms, default=0.0) <= AIM_PAUSE_MS and wall <= AIM_ALL_MS and share <= AIM_STORED
        return (f"| {self.method} | {wall:.0f} ms | {max(self.wall_ms):.0f} ms | {pause} | {self.longest_write_ms:.0f} ms | "
                f"{wall / self.copy_ms:.3f} × | {checkpoints} add {share:.2f} × | {'yes' if met else 'NO'} |")


HEAD = """| checkpoint of | median | longest | writers paused | longest write meanwhile | beside `cp -a` | of what changed | aims met |
|---|---|---|---|---|---|---|---|"""


class Writer(threading.Thread):
    """Writes to one file without pause; knows how long its longest write took."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.longest, self.is_over = path, 0.0, threading.Event()

    def run(self) -> None:
        with open(self.path, "wb", buffering=0) as file:
            while not self.is_over.is_set():
                began = time.perf_counter()
                os.pwrite(file.fileno(), b"x" * 100, 0)
                self.longest = max(self.longest, time.perf_counter() - began)
                time.sleep(0.001)


def fill(root: Path, sizes: Sizes) -> list[Path]:
    """Files that compress as text does, a hundred in a directory."""
    chance = random.Random(28)
    words = [chance.randbytes(6).hex().encode() for _ in range(4000)]
    each, paths = sizes.bytes // sizes.files, []
    for at in range(sizes.files):
        folder = root / f"d{at // 100}"
        folder.mkdir(exist_ok=True)
        path = folder / f"f{at}"
        path.write_bytes(b" ".join(chance.choices(words, k=each // 13 + 1))[:each])
        paths.append(path)
    return paths


def measured(pstore: Pstore, root: Path, area: Path, sizes: Sizes) -> Row:
    paths = fill(root, sizes)
    pstore.run("workspace", "start", root, PROFILE, "--no-watch", "--manual-max", str(sizes.checkpoints + 1), "-q")
    # The first one stores the workspace itself: the others are measured.
    pstore.ask("checkpoint", root, "--name", "base")
    copy = area / "copy"
    copied = measure.run(["cp", "-a", "--reflink=auto", root, copy]).wall
    subprocess.run(["rm", "-rf", str(copy)], check=True)
    before = tree.size(pstore.store / "objects")[1]
    chance, wall, pause, changed, method = random.Random(1), [], [], 0, ""
    writer = Writer(root / "written")
    writer.start()
    for at in range(sizes.checkpoints):
        for path in chance.sample(paths, sizes.changed):
            content = chance.randbytes(path.stat().st_size)
            path.write_bytes(content)
            changed += len(content)
        taken = pstore.ask("checkpoint", root, "--name", f"n{at}")
        method = taken["method"]
        wall.append(float(taken["elapsed_ms"]))
        if taken["pause_ms"] is not None:
            pause.append(float(taken["pause_ms"]))
    writer.is_over.set()
    writer.join()
    added = tree.size(pstore.store / "objects")[1] - before
    return Row(method, wall, pause, writer.longest * 1000, added, changed, copied * 1000)


def rows(program: Path, area: Path, sizes: Sizes) -> str:
    """The table, on a mount and in a directory."""
    lines = [HEAD]
    for kind in ("mount", "directory"):
        place = area / kind
        (place / "project").mkdir(parents=True)
        (place / "host").mkdir()
        pstore = Pstore(area, place)
        pstore.program = program
        pstore.settings["PSTORE_WORKSPACE_DIR"] = str(place / "workspaces")
        pstore.prepare()
        root = place / "project"
        if kind == "mount":
            pstore.run("mount", PROFILE, root, "--chrome-major", "65535", "-q")
        try:
            lines.append(measured(pstore, root, place, sizes).text(sizes.checkpoints))
        finally:
            if kind == "mount":
                pstore.run("unmount", root, "--discard", "-q")
    return "\n".join(lines)

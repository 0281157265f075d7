"""Reading trees: all of one, or the same random part of it again and again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

from .tree import NEVER_STORED, files

PART_BYTES = 50_000_000
PATIENCE = 300.0  # seconds, after which a program is said to be unable to
AT_LEAST = 100_000  # smaller files measure lookups, which reading the whole tree measures already


def read(path: Path) -> int:
    total = 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(1 << 17):
            total += len(block)
    return total


def read_all(paths: Iterable[Path], started: float) -> int:
    """Reads files one after another; the bytes."""
    total = 0
    for path in paths:
        total += read(path)
        if time.perf_counter() - started > PATIENCE:
            raise RuntimeError(f"gave {total / 1e6:.0f} MB in {PATIENCE:.0f} s, and was stopped")
    return total


def whole(root: Path) -> int:
    """Finds every file below `root` and reads it; the bytes."""
    started = time.perf_counter()
    found = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    stored = (path for path in sorted(found)
              if path.is_file() and not path.is_symlink() and path.relative_to(root) not in NEVER_STORED)
    return read_all(stored, started)


class Part:
    """About 50 MB in random files of a tree, or a quarter of a small tree; always the same ones."""

    def __init__(self, source: Path) -> None:
        sizes = {path: (source / path).stat().st_size for path in files(source) if path not in NEVER_STORED}
        self.of_bytes = sum(sizes.values())
        candidates = [path for path, size in sizes.items() if size >= AT_LEAST]
        random.Random(1).shuffle(candidates)
        self.paths: list[Path] = []
        self.bytes = 0
        for path in candidates:
            if self.bytes >= min(PART_BYTES, self.of_bytes // 4):
                break
            self.paths.append(path)
            self.bytes += sizes[path]
        self.first = next(iter(sizes))
        """Any file of the tree, for a first byte."""

    def read(self, root: Path) -> int:
        return read_all((root / path for path in self.paths), time.perf_counter())

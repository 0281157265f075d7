"""`cp -a`: every snapshot is a copy, and can be used where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .archives import Archives
from .measure import Cost, run
from .mounting import Mount
from .peer import first_line


class Cp(Archives):
    name = "cp"
    kind = "copies"

    def version(self) -> str:
        return f"{first_line(['cp', '--version'])}, -a; its mount is the copy itself"

    def snapshot(self, source: Path) -> Cost:
        return run(["cp", "-a", source, self.next()])

    def restore(self, target: Path) -> Cost:
        return run(["cp", "-a", self.newest(), target])

    @contextmanager
    def mounted(self, mountpoint: Path) -> Iterator[Mount]:
        yield Mount(self.newest(), lambda: None)

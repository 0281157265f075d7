"""Casync: chunks of about 64 KiB, zstd, and an index file for each snapshot."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from .measure import Cost, run
from .mounting import Mount, served
from .peer import Peer, first_line


class Casync(Peer):
    name = "casync"

    @property
    def chunks(self) -> str:
        return f"--store={self.store / 'chunks.castr'}"

    def indexes(self) -> list[Path]:
        return sorted(self.store.glob("*.caidx"))

    def version(self) -> str:
        return f"{first_line(['casync', '--version'])}, zstd, cache of seen files"

    def snapshot(self, source: Path) -> Cost:
        index = self.store / f"{len(self.indexes()):03}.caidx"
        return run(["casync", "make", self.chunks, "--compression=zstd", f"--cache={self.host / 'cache'}", index, source])

    def restore(self, target: Path) -> Cost:
        return run(["casync", "extract", self.chunks, self.indexes()[-1], target])

    def mounted(self, mountpoint: Path) -> AbstractContextManager[Mount]:
        return served(["casync", "mount", self.chunks, self.indexes()[-1], mountpoint], mountpoint, mountpoint)

    def keep_newest(self) -> Cost:
        *old, newest = self.indexes()
        return run(["rm", *old]) + run(["casync", "gc", self.chunks, newest])

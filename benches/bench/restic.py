"""Restic, zstd (`auto`), no password; it always encrypts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from .measure import Cost, run
from .mounting import Mount, served
from .peer import Peer, compressed, first_line


class Restic(Peer):
    name = "restic"

    def __init__(self, tools: Path, area: Path) -> None:
        super().__init__(tools, area)
        self.program = tools / "bin/restic"

    @property
    def base(self) -> list[str | Path]:
        return [self.program, "--insecure-no-password", "--repo", self.store, "--cache-dir", self.host / "cache", "--quiet"]

    def version(self) -> str:
        return " ".join(first_line([self.program, "version"]).split()[:2]) + ", compression auto"

    def prepare(self) -> None:
        self.store.rmdir()
        run([*self.base, "init"])

    def snapshot(self, source: Path) -> Cost:
        return run([*self.base, "backup", "--host", self.host_name, "."], cwd=source)

    def restore(self, target: Path) -> Cost:
        return run([*self.base, "restore", "latest", "--target", target])

    def mounted(self, mountpoint: Path) -> AbstractContextManager[Mount]:
        return served([*self.base, "mount", mountpoint], mountpoint, mountpoint / "snapshots/latest")

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return compressed([*self.base, "dump", "latest", "/"], level, output)

    def keep_newest(self) -> Cost:
        return run([*self.base, "forget", "--group-by", "", "--keep-last", "1", "--prune"])

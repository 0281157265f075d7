"""Restic, zstd (`auto`), no password; it always encrypts."""

from __future__ import annotations

from pathlib import Path

from .measure import Cost, run
from .peer import Peer, first_line


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

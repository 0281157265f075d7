"""Rustic, restic's format; it always encrypts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from .measure import Cost, run
from .mounting import Mount, served
from .peer import Peer, compressed, first_line

NEWEST = "latest:/profile"


class Rustic(Peer):
    name = "rustic"

    def __init__(self, tools: Path, area: Path) -> None:
        super().__init__(tools, area)
        self.program = tools / "bin/rustic"

    @property
    def base(self) -> list[str | Path]:
        return [self.program, "--no-progress", "--log-level", "error"]

    @property
    def environment(self) -> dict[str, str]:
        return {"RUSTIC_REPOSITORY": str(self.store), "RUSTIC_PASSWORD": "none", "RUSTIC_CACHE_DIR": str(self.host / "cache"),
                "HOME": str(self.host)}

    def version(self) -> str:
        return f"{first_line([self.program, '--version'])}, compression as it comes"

    def prepare(self) -> None:
        run([*self.base, "init"], self.environment)

    def snapshot(self, source: Path) -> Cost:
        return run([*self.base, "backup", "--host", self.host_name, "--as-path", "/profile", source], self.environment)

    def restore(self, target: Path) -> Cost:
        return run([*self.base, "restore", NEWEST, target], self.environment)

    def mounted(self, mountpoint: Path) -> AbstractContextManager[Mount]:
        return served([*self.base, "mount", mountpoint, NEWEST], mountpoint, mountpoint, self.environment)

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return compressed([*self.base, "dump", "--archive", "tar", NEWEST], level, output, self.environment)

    def keep_newest(self) -> Cost:
        return run([*self.base, "forget", "--keep-last", "1", "--prune", "--instant-delete"], self.environment)

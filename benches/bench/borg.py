"""Borg 1.4, no encryption, zstd level 3."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from .measure import Cost, run
from .mounting import Mount, served
from .peer import Peer, compressed, first_line


class Borg(Peer):
    name = "borg"

    def __init__(self, tools: Path, area: Path) -> None:
        super().__init__(tools, area)
        self.program = tools / "borg/bin/borg"
        self.count = 0

    @property
    def environment(self) -> dict[str, str]:
        return {"BORG_REPO": str(self.store), "BORG_BASE_DIR": str(self.host),
                "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes", "BORG_HOST_ID": self.host_name}

    def version(self) -> str:
        return f"{first_line([self.program, '--version'])}, none, zstd,3"

    def prepare(self) -> None:
        self.count = 0
        run([self.program, "init", "--encryption", "none"], self.environment)

    def snapshot(self, source: Path) -> Cost:
        self.count += 1
        return run([self.program, "create", "--compression", "zstd,3", f"::{self.count:03}", "."], self.environment, cwd=source)

    def restore(self, target: Path) -> Cost:
        target.mkdir()
        return run([self.program, "extract", f"::{self.count:03}"], self.environment, cwd=target)

    def mounted(self, mountpoint: Path) -> AbstractContextManager[Mount]:
        return served([self.program, "mount", "-f", f"::{self.count:03}", mountpoint], mountpoint, mountpoint, self.environment)

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return compressed([self.program, "export-tar", f"::{self.count:03}", "-"], level, output, self.environment)

    def keep_newest(self) -> Cost:
        return (run([self.program, "prune", "--keep-last", "1"], self.environment)
                + run([self.program, "compact"], self.environment))

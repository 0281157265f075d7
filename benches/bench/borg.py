"""Borg 1.4, no encryption, zstd level 3."""

from __future__ import annotations

from pathlib import Path

from .measure import Cost, run
from .peer import Peer, first_line


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

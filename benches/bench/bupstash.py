"""Bupstash, zstd level 3; it always encrypts."""

from __future__ import annotations

from pathlib import Path

from .measure import Cost, run
from .peer import Peer, compressed, first_line


class Bupstash(Peer):
    name = "bupstash"

    def __init__(self, tools: Path, area: Path) -> None:
        super().__init__(tools, area)
        self.program = tools / "bin/bupstash"
        self.count = 0

    @property
    def key(self) -> Path:
        return self.area / "key"

    @property
    def environment(self) -> dict[str, str]:
        return {"BUPSTASH_REPOSITORY": str(self.store), "BUPSTASH_KEY": str(self.key),
                "BUPSTASH_SEND_LOG": str(self.host / "send-log"), "BUPSTASH_QUERY_CACHE": str(self.host / "query-cache")}

    def version(self) -> str:
        return f"{first_line([self.program, 'version'])}, zstd:3"

    def prepare(self) -> None:
        self.count = 0
        self.store.rmdir()
        run([self.program, "init"], self.environment)
        run([self.program, "new-key", "-o", self.key])

    def snapshot(self, source: Path) -> Cost:
        self.count += 1
        return run([self.program, "put", "-q", "--compression", "zstd:3", f"n={self.count:03}", source], self.environment)

    def restore(self, target: Path) -> Cost:
        target.mkdir()
        return run([self.program, "restore", "-q", "--into", target, f"n={self.count:03}"], self.environment)

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return compressed([self.program, "get", "-q", f"n={self.count:03}"], level, output, self.environment)

    def keep_newest(self) -> Cost:
        return (run([self.program, "rm", "-q", "--allow-many", f"~n={self.count:03}"], self.environment)
                + run([self.program, "gc", "-q"], self.environment))

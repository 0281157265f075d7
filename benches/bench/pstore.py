"""Our release binary, through its command line."""

from __future__ import annotations

from pathlib import Path

from . import tree
from .measure import Cost, run
from .peer import Peer, first_line


class Pstore(Peer):
    name = "pstore"
    program = Path("target/release/pstore")

    @property
    def environment(self) -> dict[str, str]:
        return {"PSTORE_STORE": f"file://{self.store}", "PSTORE_CACHE_DIR": str(self.host), "XDG_CACHE_HOME": str(self.host)}

    def prepare(self) -> None:
        run([self.program, "init", "--json"], self.environment)

    def objects(self) -> int:
        # Beside the objects the directory holds lock files, which a bucket does not need.
        return tree.size(self.store / "objects")[0]

    def version(self) -> str:
        return first_line([self.program, "--version"])

    def snapshot(self, source: Path) -> Cost:
        return run([self.program, "snapshot", source, "acme/alice", "--chrome-major", "131", "--check", "none", "--json"], self.environment)

    def restore(self, target: Path) -> Cost:
        return run([self.program, "restore", "acme/alice", target, "--json"], self.environment)

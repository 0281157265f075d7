"""`tar` through `zstd -3 -T0`: every snapshot is a whole archive."""

from __future__ import annotations

from pathlib import Path

from .measure import Cost, run
from .peer import Peer, first_line


class Tar(Peer):
    name = "tar"

    def version(self) -> str:
        return f"{first_line(['tar', '--version'])}, {first_line(['zstd', '--version']).strip('* ')}, -3 -T0"

    def snapshot(self, source: Path) -> Cost:
        archive = self.store / f"{len(list(self.store.iterdir())):03}.tar.zst"
        return run(["tar", "-I", "zstd -3 -T0", "-C", source, "-cf", archive, "."])

    def restore(self, target: Path) -> Cost:
        target.mkdir()
        newest = max(self.store.iterdir())
        return run(["tar", "-I", "zstd", "-C", target, "-xf", newest])

"""`tar` through `zstd -3 -T0`: every snapshot is a whole archive."""

from __future__ import annotations

from pathlib import Path

from .archives import Archives
from .measure import Cost, run
from .peer import compressed, first_line


class Tar(Archives):
    name = "tar"
    ending = ".tar.zst"

    def version(self) -> str:
        return f"{first_line(['tar', '--version'])}, {first_line(['zstd', '--version']).strip('* ')}, -3 -T0"

    def snapshot(self, source: Path) -> Cost:
        return run(["tar", "-I", "zstd -3 -T0", "-C", source, "-cf", self.next(), "."])

    def restore(self, target: Path) -> Cost:
        target.mkdir()
        return run(["tar", "-I", "zstd", "-C", target, "-xf", self.newest()])

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return compressed(["tar", "-C", source, "--sort=name", "-cf", "-", "."], level, output)

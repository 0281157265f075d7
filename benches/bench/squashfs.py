"""Squashfs with zstd level 3, one image for each snapshot, mounted by `squashfuse`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from .archives import Archives
from .measure import Cost, run
from .mounting import Mount, served
from .peer import compressed, first_line


class Squashfs(Archives):
    name = "squashfs"
    ending = ".sqfs"

    def version(self) -> str:
        words = first_line(["mksquashfs", "-version"]).split()
        package = first_line(["dpkg-query", "-W", "-f", "${Version}", "squashfuse"])
        return f"mksquashfs {words[2]}, zstd 3; squashfuse {package}"

    def snapshot(self, source: Path) -> Cost:
        return run(["mksquashfs", source, self.next(), "-comp", "zstd", "-Xcompression-level", "3", "-quiet", "-no-progress"])

    def restore(self, target: Path) -> Cost:
        return run(["unsquashfs", "-quiet", "-no-progress", "-d", target, self.newest()])

    def mounted(self, mountpoint: Path) -> AbstractContextManager[Mount]:
        return served(["squashfuse", "-f", self.newest(), mountpoint], mountpoint, mountpoint)

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return compressed(["sqfs2tar", self.newest()], level, output)

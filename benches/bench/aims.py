"""What we want of pstore, as ratios to the others in the same run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Aim:
    """`limit` times what a program needs, or the best of those that deduplicate or archive; absolute without `against`."""

    table: str
    row: str
    limit: float
    against: str | None

    def text(self) -> str:
        return f"≤ {self.limit:g}x {self.against}" if self.against else f"≤ {self.limit:g}"


AIMS = [
    Aim("wall", "first", 0.8, "tar"),
    Aim("wall", "unchanged", 0.1, "best"),
    Aim("wall", "incremental", 0.3, "best"),
    Aim("wall", "new host", 0.4, "best"),
    Aim("wall", "restore first, cold", 1.1, "tar"),
    Aim("wall", "restore last, cold", 1.1, "tar"),
    Aim("wall", "mount, first byte", 0.05, None),
    Aim("wall", "mount, 50 MB", 1.1, "squashfs"),
    Aim("wall", "mount, whole tree", 1.0, "squashfs"),
    Aim("wall", "Chromium to first page, cold", 1.15, "cp"),
    Aim("wall", "session, commit", 0.1, "best"),
    Aim("wall", "export, zstd -9", 1.0, "tar"),
    Aim("rss", "snapshot and restore", 120, None),
    Aim("bytes", "incremental", 0.8, "restic"),
    Aim("bytes", "new host", 0.8, "restic"),
    Aim("objects", "first", 20, None),
]


def aim_for(table: str, row: str) -> Aim | None:
    return next((aim for aim in AIMS if (aim.table, aim.row) == (table, row)), None)

"""Programs that make a whole archive, or copy, of every snapshot: there is nothing to collect, old ones are removed."""

from __future__ import annotations

from pathlib import Path

from .measure import Cost, run
from .peer import Peer


class Archives(Peer):
    kind = "archives"
    ending = ""

    def next(self) -> Path:
        return self.store / f"{len(list(self.store.iterdir())):03}{self.ending}"

    def newest(self) -> Path:
        return max(self.store.iterdir())

    def keep_newest(self) -> Cost:
        return run(["rm", "-r", *sorted(self.store.iterdir())[:-1]])

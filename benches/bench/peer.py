"""What the comparison asks of every program in it.

A peer owns one area: `store` is what would be kept remotely, `host` is what it keeps on
the machine to be quick (caches, indexes). Every snapshot is of the same path.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import tree
from .measure import Cost


class Peer:
    name: str

    def __init__(self, tools: Path, area: Path) -> None:
        self.tools = tools
        self.area = area
        self.store = area / "store"
        self.host = area / "host"
        self.host_name = "box1"

    # What a program must bring.

    def version(self) -> str:
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes an empty store in the empty directory `self.store`. Not measured."""

    def snapshot(self, source: Path) -> Cost:
        raise NotImplementedError

    def restore(self, target: Path) -> Cost:
        """The newest snapshot into `target`, which does not exist yet."""
        raise NotImplementedError

    # What follows from that. A program for which an incremental or unchanged snapshot is
    # another command overrides these.

    def create(self, source: Path) -> Cost:
        return self.snapshot(source)

    def incremental(self, source: Path) -> Cost:
        return self.snapshot(source)

    def unchanged(self, source: Path) -> Cost:
        return self.snapshot(source)

    def reset(self) -> None:
        self.host_name = "box1"
        tree.remove(self.area)
        self.store.mkdir(parents=True)
        self.host.mkdir()
        self.prepare()

    def move_to_new_host(self) -> None:
        """The store stays, everything kept locally is gone."""
        self.host_name = "box2"
        tree.remove(self.host)
        self.host.mkdir()

    def save(self) -> None:
        saved = self.area.with_name(self.area.name + ".saved")
        tree.remove(saved)
        saved.mkdir()
        tree.copy(self.area, saved)

    def recall(self) -> None:
        """Back to the last `save`."""
        self.host_name = "box1"
        tree.remove(self.area)
        self.area.with_name(self.area.name + ".saved").rename(self.area)

    def stored_bytes(self) -> int:
        return tree.size(self.store)[1]

    def objects(self) -> int:
        return tree.size(self.store)[0]


def first_line(command: Sequence[str | Path]) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return (done.stdout or done.stderr).strip().split("\n")[0]

"""What the comparison asks of every program in it.

A peer owns one area: `store` is what would be kept remotely, `host` is what it keeps on
the machine to be quick (caches, indexes). Every snapshot is of the same path.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from . import tree
from .measure import Cost, run
from .mounting import Mount


class Cannot(Exception):
    """The program has no way to do this."""


class Peer:
    name: str
    kind = "deduplicates"
    """Stores what two snapshots share once; or `archives` each, compressed, or `copies` it."""

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

    def keep_newest(self) -> Cost:
        """Drops every snapshot but the newest and frees what only they needed."""
        raise NotImplementedError

    # What it may bring.

    def mounted(self, mountpoint: Path) -> AbstractContextManager[Mount]:
        """The newest snapshot to be read below the empty directory `mountpoint`."""
        raise Cannot

    def export(self, level: int, source: Path, output: Path) -> Cost:
        """The newest snapshot, which is of `source`, as a tar archive compressed by zstd at that level."""
        raise Cannot

    def commit(self, directory: Path) -> Cost:
        """The next snapshot from a tree that is `opened`."""
        raise Cannot

    # What follows from that. A program for which one of these is another command overrides it.

    def create(self, source: Path) -> Cost:
        return self.snapshot(source)

    def incremental(self, source: Path) -> Cost:
        return self.snapshot(source)

    def unchanged(self, source: Path) -> Cost:
        return self.snapshot(source)

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Path]:
        """The newest snapshot as a tree that can be written, at `directory`, which does not exist yet."""
        self.restore(directory)
        try:
            yield directory
        finally:
            tree.remove(directory)

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

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """On a host that has nothing of the store, and back."""
        kept = self.host.with_name("host.kept")
        self.host.rename(kept)
        self.move_to_new_host()
        try:
            yield
        finally:
            tree.remove(self.host)
            kept.rename(self.host)
            self.host_name = "box1"

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


def compressed(command: Sequence[str | Path], level: int, output: Path, environment: Mapping[str, str] | None = None) -> Cost:
    """What `command` writes, through zstd, to `output`."""
    line = f"{shlex.join(map(str, command))} | zstd -q -{level} -T0"
    return run(["bash", "-o", "pipefail", "-c", line], environment, output=output)

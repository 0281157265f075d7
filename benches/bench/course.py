"""The course every program runs, interleaved, on one working directory.

One round: first snapshot with a cold and with a warm source; the unchanged directory again;
a cold restore; each further generation brought over the working directory and snapshotted;
the last of them also on a new host; a cold restore of the last generation. The order of
the programs rotates from round to round.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import tree
from .measure import Cost, drop_caches, settle, warm
from .peer import Peer

# Stat caches do not trust a file whose ctime is younger than their clock's grain: everybody
# gets this pause between the last write to the directory and the snapshot.
PAUSE = 3.0


@dataclass(frozen=True)
class Sample:
    row: str
    peer: str
    generation: int
    cost: Cost
    added_bytes: int = 0
    stored_bytes: int = 0
    objects: int = 0


@dataclass
class Record:
    samples: list[Sample] = field(default_factory=list)
    differences: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Paths in which a restored tree was not the source, per program."""


class Course:
    def __init__(self, peers: list[Peer], generations: list[Path], area: Path, say: Callable[[str], None]) -> None:
        self.peers = peers
        self.generations = generations
        self.working = area / "working"
        self.restored = area / "restored"
        self.say = say
        self.record = Record()
        self.round = 0

    def run(self, rounds: int) -> Record:
        for self.round in range(rounds):
            self._round()
        for peer in self.peers:
            tree.remove(peer.area)
        tree.remove(self.working)
        return self.record

    def _round(self) -> None:
        last = len(self.generations) - 1
        self._fresh(0)
        for peer in self._order():
            peer.reset()
            drop_caches()
            self._snapshot(peer, "first, cold source", 0, peer.create)
        for peer in self._order():
            peer.reset()
            self._snapshot(peer, "first", 0, peer.create)
        for peer in self._order():
            self._snapshot(peer, "unchanged", 0, peer.unchanged)
        for peer in self._order():
            self._restore(peer, "restore first, cold", 0)
        for number in range(1, last + 1):
            if number == last:
                self._new_host(number)
            tree.advance(self.working, self.generations[number])
            settle()
            time.sleep(PAUSE)
            for peer in self._order():
                self._snapshot(peer, "incremental", number, peer.incremental)
        if last > 0:
            for peer in self._order():
                self._restore(peer, "restore last, cold", last)

    def _new_host(self, number: int) -> None:
        """The same step as the incremental one after it, from the same store, on another machine."""
        kept = self.working.with_name("kept")
        for peer in self.peers:
            peer.save()
            peer.move_to_new_host()
        self.working.rename(kept)
        self._fresh(number)
        for peer in self._order():
            self._snapshot(peer, "new host", number, peer.incremental)
        for peer in self.peers:
            peer.recall()
        tree.remove(self.working)
        kept.rename(self.working)

    def _fresh(self, number: int) -> None:
        tree.remove(self.working)
        self.working.mkdir(parents=True)
        tree.copy(self.generations[number], self.working)
        settle()
        time.sleep(PAUSE)

    def _order(self) -> Iterator[Peer]:
        shift = self.round % len(self.peers)
        return iter(self.peers[shift:] + self.peers[:shift])

    def _snapshot(self, peer: Peer, row: str, number: int, step: Callable[[Path], Cost]) -> None:
        before = peer.stored_bytes()
        if "cold" not in row:
            settle()
            warm(self.working)
        cost = step(self.working)
        after = peer.stored_bytes()
        self._note(Sample(row, peer.name, number, cost, after - before, after, peer.objects()))

    def _restore(self, peer: Peer, row: str, number: int) -> None:
        tree.remove(self.restored)
        drop_caches()
        self._note(Sample(row, peer.name, number, peer.restore(self.restored)))
        if self.round == 0:
            different = tree.differences(self.working, self.restored)
            self.record.differences[peer.name] += len(different)
            for path in different[:5]:
                self.say(f"{peer.name}: restored differently: {path}")
        tree.remove(self.restored)

    def _note(self, sample: Sample) -> None:
        self.record.samples.append(sample)
        self.say(f"round {self.round + 1}  {sample.row:22}gen{sample.generation}  {sample.peer:10}"
                 f"{sample.cost.wall:7.2f} s  cpu {sample.cost.cpu:6.2f}  rss {sample.cost.rss / 2**20:5.0f} MiB"
                 f"  +{sample.added_bytes / 1e6:.1f} MB")

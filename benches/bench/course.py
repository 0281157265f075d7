"""The course every program runs, interleaved, on one working directory.

One round: first snapshot with a cold and with a warm source; the unchanged directory again;
a cold restore; each further generation brought over the working directory and snapshotted;
the last of them also on a new host; a cold restore of the last generation. Then that is used:
mounted and read, opened by Chromium, exported, snapshotted after a short session; and at the
end everything but the newest is dropped. The order of the programs rotates from round to round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from . import machine, reading, tree
from .chromium import browse
from .cp import Cp
from .measure import Cost, drop_caches, run, settle, warm
from .peer import Cannot, Peer
from .record import Record, Sample

# Stat caches do not trust a file whose ctime is younger than their clock's grain: everybody
# gets this pause between the last write to the directory and the snapshot.
PAUSE = 3.0

# What took a program this many seconds is not done again in the rounds that follow.
SLOW = 60.0


class Course:
    def __init__(self, peers: list[Peer], generations: list[Path], area: Path, chromium: str, say: Callable[[str], None]) -> None:
        self.peers = peers
        self.generations = generations
        self.last = len(generations) - 1
        self.working = area / "working"
        self.restored = area / "restored"
        self.mountpoint = area / "mountpoint"
        self.archive = area / "archive"
        self.chromium = chromium
        self.part = reading.Part(generations[-1])
        self.say = say
        self.record = Record(part_bytes=self.part.bytes, part_files=len(self.part.paths))
        self.round = 0
        self.slow: set[tuple[str, str]] = set()

    def run(self, rounds: int) -> Record:
        for self.round in range(rounds):
            self._store()
            self._mounts()
            self._pages()
            self._exports()
            self._session()
            self._drop()
        for peer in self.peers:
            tree.remove(peer.area)
        tree.remove(self.working)
        self.archive.unlink(missing_ok=True)
        return self.record

    def _store(self) -> None:
        """Every generation, and back."""
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
        for number in range(1, self.last + 1):
            if number == self.last:
                self._new_host(number)
            tree.advance(self.working, self.generations[number])
            settle()
            time.sleep(PAUSE)
            for peer in self._order():
                self._snapshot(peer, "incremental", number, peer.incremental)
        if self.last > 0:
            for peer in self._order():
                self._restore(peer, "restore last, cold", self.last)

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

    def _mounts(self) -> None:
        """The newest snapshot on a host that has nothing of it: a first byte, and a part or all of the tree."""
        for row, read, wanted in (("mount, 50 MB", self.part.read, self.part.bytes),
                                  ("mount, whole tree", reading.whole, self.part.of_bytes)):
            for peer in self._order():
                self._attempt(row, peer, lambda: self._mount(peer, row, read, wanted))

    def _mount(self, peer: Peer, row: str, read: Callable[[Path], int], wanted: int) -> None:
        with peer.elsewhere():
            drop_caches()
            started = time.perf_counter()
            with peer.mounted(self.mountpoint) as mount:
                mount.first_byte(self.part.first)
                took = time.perf_counter() - started
                before = mount.cpu()
                self._note(Sample("mount, first byte", peer.name, self.last, Cost(took, before, mount.rss())))
                started = time.perf_counter()
                found = read(mount.root)
                took = time.perf_counter() - started
                self._note(Sample(row, peer.name, self.last, Cost(took, mount.cpu() - before, mount.rss())))
        if found != wanted:
            raise RuntimeError(f"the mount gave {found} bytes of {wanted}")

    def _pages(self) -> None:
        """Chromium on the newest snapshot, on a host that has nothing of it; and on a copy that is there already."""
        for peer in self._order():
            self._attempt("store to first page, cold", peer, lambda: self._page(peer))
        for peer in self._order():
            if isinstance(peer, Cp):
                self._attempt("Chromium to first page, cold", peer, lambda: self._page_of_copy(peer))

    def _page(self, peer: Peer) -> None:
        with peer.elsewhere():
            tree.remove(self.restored)
            drop_caches()
            started = time.perf_counter()
            with peer.opened(self.restored) as root:
                opened = time.perf_counter() - started
                page = browse(self.chromium, root)[1]
                self._note(Sample("store to first page, cold", peer.name, self.last, Cost(opened + page, 0, 0)))
                before = peer.stored_bytes()
                cost = peer.commit(root)
                after = peer.stored_bytes()
                self._note(Sample("Chromium to first page, cold", peer.name, self.last, Cost(page, 0, 0)))
                self._note(Sample("session, commit", peer.name, self.last, cost, after - before, after))

    def _page_of_copy(self, peer: Peer) -> None:
        with peer.opened(self.restored) as root:
            drop_caches()
            self._note(Sample("Chromium to first page, cold", peer.name, self.last, Cost(browse(self.chromium, root)[1], 0, 0)))

    def _exports(self) -> None:
        for level in (9, 3):
            row = f"export, zstd -{level}"
            for peer in self._order():
                self._attempt(row, peer, lambda: self._export(peer, row, level))

    def _export(self, peer: Peer, row: str, level: int) -> None:
        settle()
        warm(peer.store)
        cost = peer.export(level, self.working, self.archive)
        self._note(Sample(row, peer.name, self.last, cost, self.archive.stat().st_size))

    def _session(self) -> None:
        """The same short session in the working directory. Who has no commit takes this snapshot instead."""
        browse(self.chromium, self.working)
        settle()
        time.sleep(PAUSE)
        for peer in self._order():
            self._snapshot(peer, "session, snapshot", self.last, peer.incremental)
            if type(peer).commit is Peer.commit:
                self._note(replace(self.record.samples[-1], row="session, commit"))

    def _drop(self) -> None:
        for peer in self._order():
            self._attempt("drop all but the newest", peer, lambda: self._keep_newest(peer))

    def _keep_newest(self, peer: Peer) -> None:
        settle()
        before = peer.stored_bytes()
        cost = peer.keep_newest()
        after = peer.stored_bytes()
        self._note(Sample("drop all but the newest", peer.name, self.last, cost, before - after, after, peer.objects()))
        if self.round == 0:
            tree.remove(self.restored)
            peer.restore(self.restored)
            self._compare(peer)
            tree.remove(self.restored)

    def _fresh(self, number: int) -> None:
        tree.remove(self.working)
        self.working.mkdir(parents=True)
        tree.copy(self.generations[number], self.working)
        settle()
        time.sleep(PAUSE)

    def _order(self) -> Iterator[Peer]:
        """The programs for one row, once the machine is at rest: what the row before has left to be written or discarded would
        fall to the first of them alone."""
        machine.quiet(self.working.parent, patience=30)
        shift = self.round % len(self.peers)
        return iter(self.peers[shift:] + self.peers[:shift])

    def _attempt(self, row: str, peer: Peer, step: Callable[[], None]) -> None:
        """A step that a program may be unable to do, or fail at, or be slow at; the others go on."""
        if (row, peer.name) in self.slow:
            return
        started = time.perf_counter()
        try:
            step()
        except Cannot:
            pass
        except (RuntimeError, OSError) as error:
            self.record.failures[row][peer.name] = str(error)
            self.say(f"{peer.name}: {row}: {error}")
        if time.perf_counter() - started > SLOW:
            self.slow.add((row, peer.name))

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
        cost = peer.restore(self.restored)
        self._note(Sample(row, peer.name, number, cost))
        # pstore returns when the restored tree would survive a crash of the machine; the others leave that to the kernel.
        self._note(Sample(f"{row}, durable", peer.name, number, cost + run(["sync", "-f", self.restored])))
        if self.round == 0:
            self._compare(peer)
        tree.remove(self.restored)

    def _compare(self, peer: Peer) -> None:
        different = tree.differences(self.working, self.restored)
        self.record.differences[peer.name] += len(different)
        for path in different[:5]:
            self.say(f"{peer.name}: restored differently: {path}")

    def _note(self, sample: Sample) -> None:
        self.record.samples.append(sample)
        self.say(f"round {self.round + 1}  {sample.row:26}gen{sample.generation}  {sample.peer:10}"
                 f"{sample.cost.wall:7.2f} s  cpu {sample.cost.cpu:6.2f}  rss {sample.cost.rss / 2**20:5.0f} MiB"
                 f"  +{sample.made_bytes / 1e6:.1f} MB")

"""An agent's work on a mount, on one with `--writeback`, and on the disk below, in turn."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .measure import settle
from .pstore import Pstore

DISK, MOUNT, WRITEBACK = "disk", "mount", "--writeback"
SIDES = (DISK, MOUNT, WRITEBACK)
UNPACKED = (3_000, 325_000_000)
"""Files of the archive, and their bytes."""
COMMITTED = 20_000
"""Files of the repository."""
WRITES = 25_600
PACKAGES = {"express": "4.21.2", "eslint": "9.17.0", "typescript": "5.7.2", "lodash": "4.17.21"}
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@localhost",
       "GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@localhost", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True)
class Row:
    """A program at work in an empty directory, which `prepare` fills."""

    name: str
    command: Callable[[Path], Sequence[str | Path]]
    mount_aim: float | None
    writeback_aim: float | None
    prepare: Callable[[Path], object] = lambda _: None


@dataclass
class Speeds:
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """Row and side to one value for each round."""

    def add(self, row: str, side: str, seconds: float) -> None:
        self.seconds.setdefault((row, side), []).append(seconds)

    def table(self, rows: Sequence[Row]) -> str:
        """The best of the rounds; over the disk's."""
        lines = ["| | disk | mount | over disk | `--writeback` | over disk |", "|---|---|---|---|---|---|"]
        for row in rows:
            best = {side: min(self.seconds[row.name, side]) for side in SIDES}
            cells = [f"{best[DISK]:.2f} s"]
            for side, aim in ((MOUNT, row.mount_aim), (WRITEBACK, row.writeback_aim)):
                ratio = best[side] / best[DISK]
                verdict = "" if aim is None else f" (≤ {aim:g}: {'met' if ratio <= aim else '**missed**'})"
                cells += [f"{best[side]:.2f} s", f"{ratio:.2f}{verdict}"]
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


def run(command: Sequence[str | Path], directory: Path) -> None:
    subprocess.run([str(word) for word in command], cwd=directory, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   env={**os.environ, **GIT})


class Materials:
    """What the programs work on; made once and kept."""

    def __init__(self, folder: Path) -> None:
        self.archive, self.repository, self.crate, self.npm = (folder / name for name in ("tree.tar", "repository", "crate", "npm"))
        folder.mkdir(parents=True, exist_ok=True)
        for path, make in ((self.archive, self._archive), (self.repository, self._repository), (self.crate, self._crate), (self.npm, self._npm)):
            if not path.exists():
                half = path.with_name(path.name + ".half")
                shutil.rmtree(half, ignore_errors=True)
                make(half)
                half.rename(path)

    def _archive(self, path: Path) -> None:
        files, total = UNPACKED
        tree = path.with_name("tree")
        sizes, chance = [random.Random(1).lognormvariate(0, 1.2) for _ in range(files)], random.Random(2)
        for number, size in enumerate(sizes):
            file = tree / f"{number % 60:02}" / f"{number}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(chance.randbytes(int(size / sum(sizes) * total)))
        with tarfile.open(path, "w") as archive:
            archive.add(tree, "tree")
        shutil.rmtree(tree)

    def _repository(self, path: Path) -> None:
        chance = random.Random(3)
        for number in range(COMMITTED):
            file = path / f"{number % 20:02}" / f"{number // 20 % 20:02}" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"line {chance.random()}\n" for _ in range(chance.randrange(5, 250))))
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
            run(["git", *words], path)

    def _crate(self, path: Path) -> None:
        (path / "src").mkdir(parents=True)
        (path / "Cargo.toml").write_text('[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n')
        modules = [f"part{number}" for number in range(20)]
        for module in modules:
            lines = [f"pub fn f{at}(x: &[u64]) -> Option<u64> {{ x.iter().map(|y| y * {at}).max() }}" for at in range(50)]
            (path / "src" / f"{module}.rs").write_text("\n".join(lines))
        uses = " + ".join(f"{module}::f{at}(&[1]).unwrap_or(0)" for module in modules for at in range(0, 50, 5))
        (path / "src/main.rs").write_text("\n".join(f"mod {module};" for module in modules) + f'\nfn main() {{ println!("{{}}", {uses}); }}\n')

    def _npm(self, path: Path) -> None:
        path.mkdir()
        wanted = ",".join(f'"{name}": "{version}"' for name, version in PACKAGES.items())
        (path / "package.json").write_text(f'{{"name": "small", "version": "1.0.0", "private": true, "dependencies": {{{wanted}}}}}\n')
        # The second asks for what an installation by the lock file asks for.
        for verb in ("install", "ci"):
            run(["npm", verb, "--no-audit", "--no-fund", "--ignore-scripts", "--cache", path / "cache"], path)
            shutil.rmtree(path / "node_modules")

    def rows(self) -> list[Row]:
        def unpack(directory: Path) -> Sequence[str | Path]:
            return ["tar", "-xf", self.archive, "-C", directory]

        def clone(directory: Path) -> Sequence[str | Path]:
            return ["git", "clone", "-q", f"file://{self.repository}", directory / "clone"]

        def cloned(directory: Path) -> None:
            run(clone(directory), directory)
            run(["git", "status", "--porcelain"], directory / "clone")

        def packages(directory: Path) -> None:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(self.npm / name, directory)

        written = ["if=/dev/zero", "bs=4k", f"count={WRITES}", "status=none"]
        npm = ["npm", "ci", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--cache", self.npm / "cache"]
        return [
            Row("unpack 325 MB in 3 000 files (`tar -xf`)", unpack, 2.5, 1.5),
            Row("`rm -rf` of that tree", lambda directory: ["rm", "-rf", directory / "tree"], None, None,
                lambda directory: run(unpack(directory), directory)),
            Row(f"{WRITES} writes of 4 KiB (`dd`)", lambda directory: ["dd", f"of={directory / 'file'}", *written], None, None),
            Row("`git clone` of 20 000 files", clone, 1.5, 1.5),
            Row("`git status` there", lambda directory: ["git", "-C", directory / "clone", "status", "--porcelain"], 1.5, 1.5, cloned),
            Row("`cargo build` of a small crate", lambda _: ["cargo", "build", "-q", "--offline"], 1.5, 1.5,
                lambda directory: shutil.copytree(self.crate, directory, dirs_exist_ok=True)),
            Row("`npm ci` from a warm cache", lambda _: npm, 1.5, 1.5, packages),
        ]


@contextmanager
def sides(work: Path) -> Iterator[dict[str, Path]]:
    """A directory for each side, on the same disk."""
    pstore = Pstore(work, work / "pstore")
    pstore.reset()
    found = {side: work / f"on-{side.strip('-')}" for side in SIDES}
    with ExitStack() as stack:
        for side, directory in found.items():
            directory.mkdir()
            if side != DISK:
                options = [WRITEBACK] if side == WRITEBACK else []
                pstore.run("mount", f"acme/{directory.name}", directory, "--chrome-major", "131", "-q", *options)
                stack.callback(pstore.run, "unmount", directory, "--discard", "-q")
        yield found


def measure(rows: Sequence[Row], places: dict[str, Path], rounds: int, say: Callable[[str], None]) -> Speeds:
    """Each row on each side, in an order that rotates from round to round."""
    speeds = Speeds()
    for number in range(rounds):
        order = SIDES[number % len(SIDES):] + SIDES[:number % len(SIDES)]
        for row in rows:
            for side in order:
                directory = places[side] / "work"
                directory.mkdir()
                row.prepare(directory)
                settle()
                started = time.perf_counter()
                run(row.command(directory), directory)
                speeds.add(row.name, side, time.perf_counter() - started)
                shutil.rmtree(directory)
            say(f"round {number + 1}, {row.name}: " + ", ".join(f"{side} {speeds.seconds[row.name, side][-1]:.2f} s" for side in SIDES))
    return speeds

"""Running a command and what it cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    wall: float
    """Seconds."""
    cpu: float
    """User and system seconds of the whole process tree."""
    rss: int
    """Bytes of the largest process of the tree. Linux counts the parent's size before exec
    into it, so this process must stay small (it is below 30 MB)."""

    def __add__(self, other: Cost) -> Cost:
        """Of both, one after the other."""
        return Cost(self.wall + other.wall, self.cpu + other.cpu, max(self.rss, other.rss))


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path | None = None,
        output: Path | None = None) -> Cost:
    """Runs `command` to its end; raises with the end of its stderr when it fails."""
    errors = Path(os.environ.get("TMPDIR", "/tmp")) / f"bench-{os.getpid()}.stderr"
    with open(errors, "wb") as stderr, open(output or os.devnull, "wb") as stdout:
        started = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=stderr, env={**os.environ, **(environment or {})}, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    text = errors.read_text(errors="replace")
    errors.unlink()
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {process.returncode}\n{text[-2000:]}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def settle() -> None:
    """Ends pending writes, so that one run does not pay for another's."""
    os.sync()


def drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def warm(root: Path) -> None:
    """Brings every file below `root` into the page cache."""
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb", buffering=0) as file:
                    while file.read(1 << 18):
                        pass

"""A tree that a program serves, and what the serving costs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

PATIENCE = 120.0
"""Seconds after which a mount has failed."""


class Mount:
    """A tree that is, or soon will be, at `root`, and the process that serves it."""

    def __init__(self, root: Path, server: Callable[[], int | None]) -> None:
        self.root = root
        self._server = server

    @cached_property
    def pid(self) -> int | None:
        """None when it is a plain directory. Asked for only when the first byte has been read: asking takes time."""
        return self._server()

    def cpu(self) -> float:
        """User and system seconds of the server so far."""
        if self.pid is None:
            return 0.0
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> int:
        """The most memory the server ever had, in bytes."""
        if self.pid is None:
            return 0
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)

    def first_byte(self, path: Path) -> None:
        """Returns when a byte of the file `path` below the root has been read."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with open(self.root / path, "rb", buffering=0) as file:
                    file.read(1)
                return
            except OSError:
                if self.pid is None or time.monotonic() > deadline or _ended(self.pid):
                    raise
            time.sleep(0.001)


@contextmanager
def served(command: Sequence[str | Path], mountpoint: Path, root: Path, environment: Mapping[str, str] | None = None) -> Iterator[Mount]:
    """What `command` serves at `mountpoint` while it runs in the foreground; the tree itself is at `root`."""
    mountpoint.mkdir(exist_ok=True)
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    try:
        yield Mount(root, lambda: process.pid)
    finally:
        _end(process, mountpoint)


def _end(process: subprocess.Popen[bytes], mountpoint: Path) -> None:
    for options in ([], [], ["-l"]):
        if not os.path.ismount(mountpoint):
            break
        subprocess.run(["umount", *options, str(mountpoint)], capture_output=True)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True

"""Our release binary, through its command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import tree
from .measure import Cost, run
from .mounting import Mount
from .peer import Peer, first_line

PROFILE = "acme/alice"


class Pstore(Peer):
    name = "pstore"
    program = Path("target/release/pstore")

    def __init__(self, tools: Path, area: Path) -> None:
        super().__init__(tools, area)
        self.settings: dict[str, str] = {"PSTORE_STORE": f"file://{self.store}"}
        """Which store, and how it is reached."""

    @property
    def environment(self) -> dict[str, str]:
        return {**self.settings, "HOME": str(self.host), "PSTORE_CACHE_DIR": str(self.host), "XDG_CACHE_HOME": str(self.host),
                "PSTORE_SESSION_DIR": str(self.host / "sessions")}

    def run(self, *words: str | Path, output: Path | None = None) -> Cost:
        return run([self.program, *words], self.environment, output=output)

    def ask(self, *words: str | Path) -> dict[str, Any]:
        """The document a command prints. Not measured."""
        command = [str(self.program), *map(str, words), "--json"]
        done = subprocess.run(command, env={**os.environ, **self.environment}, check=True, stdout=subprocess.PIPE)
        return dict(json.loads(done.stdout))

    def prepare(self) -> None:
        self.run("init", "--json")

    def objects(self) -> int:
        # Beside the objects the directory holds lock files, which a bucket does not need.
        return tree.size(self.store / "objects")[0]

    def content_bytes(self) -> int:
        return tree.size(self.store / "objects/content")[1]

    def version(self) -> str:
        return first_line([self.program, "--version"])

    def snapshot(self, source: Path) -> Cost:
        return self.run("snapshot", source, PROFILE, "--chrome-major", "131", "--force", "--check", "none", "--json")

    def examined(self, source: Path) -> Cost:
        """A snapshot whose databases are examined, as pstore does without an option."""
        return self.run("snapshot", source, PROFILE, "--chrome-major", "131", "--force", "--json")

    def restore(self, target: Path) -> Cost:
        return self.run("restore", PROFILE, target, "--json")

    @contextmanager
    def mounted(self, mountpoint: Path) -> Iterator[Mount]:
        """As everybody mounts it: by a command that returns when the mount is ready."""
        mountpoint.mkdir(exist_ok=True)
        self.run("mount", PROFILE, mountpoint, "-q")
        try:
            yield Mount(mountpoint, lambda: int(self.status()["pid"]))
        finally:
            self.run("unmount", mountpoint, "--discard", "-q")

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Path]:
        with self.mounted(directory) as mount:
            yield mount.root

    def status(self) -> dict[str, Any]:
        """What the one mount of this host says of itself."""
        return dict(self.ask("mounts")["mounts"][0])

    def commit(self, directory: Path) -> Cost:
        return self.run("commit", directory, "-q")

    def export(self, level: int, source: Path, output: Path) -> Cost:
        return self.run("export", PROFILE, "-q", "-o", "-", "--level", str(level), output=output)

    def splice(self, output: Path) -> Cost:
        """An archive of the frames as they are stored."""
        return self.run("export", PROFILE, "-q", "-o", "-", "--splice", output=output)

    def keep_newest(self) -> Cost:
        return self.delete_older() + self.collect()

    def delete_older(self) -> Cost:
        """All but the newest snapshot; their space is not freed yet."""
        cost = Cost(0, 0, 0)
        for snapshot in self.ask("list", PROFILE)["snapshots"]:
            if not snapshot["latest"]:
                cost += self.run("delete", PROFILE, "--sha", snapshot["record"], "--json")
        return cost

    def collect(self) -> Cost:
        """Both steps, without grace."""
        return self.run("gc", PROFILE.split("/")[0], "--grace", "0", "--wait", "--json")

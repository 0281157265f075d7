"""`scene` makes a store, a host and a server for each test. `PSTORE_PROGRAM` names the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, List, Optional

import pstore

PROGRAM = os.environ["PSTORE_PROGRAM"]
CHROME = 131


class Scene(unittest.TestCase):
    """One store, one home, and a door to them."""

    door: pstore.Door

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pstore-test-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.home = self.make_home("home")
        self.host = self.make_host(self.home)
        self.addCleanup(self.end_mounts)
        self.udd = self.folder / "udd"
        self.udd.mkdir()
        (self.udd / "Preferences").write_text("first")
        (self.udd / "Default").mkdir()
        (self.udd / "Default" / "Cookies").write_bytes(os.urandom(300_000))
        self.door = self.make_door()

    def make_home(self, name: str) -> Path:
        home = self.folder / name
        home.mkdir()
        return home

    def make_host(self, home: Path) -> pstore.Host:
        """A host of its own on the same store."""
        environment = {"HOME": str(home), "PSTORE_CACHE_DIR": str(home / "cache"), "XDG_STATE_HOME": ""}
        return pstore.Host(f"file://{self.folder}/store", program=PROGRAM, environment=environment)

    def make_door(self) -> pstore.Door:
        return self.host

    def profile(self, name: str = "acme/alice", chrome_major: Optional[int] = CHROME) -> pstore.Profile:
        return pstore.profile(name, chrome_major=chrome_major, through=self.door)

    def serve(
        self, *, token: Optional[str] = "*", role: str = "admin", workspaces: Optional[Path] = None
    ) -> pstore.Server:
        """Starts a server on the host."""
        mounts = self.folder / "mounts"
        mounts.mkdir(exist_ok=True)
        self.host.ask("init")
        issued = self.host.ask("token", "new", "--tenant", token or "*", "--role", role)
        tokens = self.folder / "tokens.toml"
        tokens.write_text(issued["entry"])
        environment = {**os.environ, "HOME": str(self.home), "PSTORE_STORE": f"file://{self.folder}/store"}
        environment.update(PSTORE_CACHE_DIR=str(self.home / "cache"), XDG_STATE_HOME="")
        line = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--tokens", str(tokens), "--mounts", str(mounts)]
        line += [] if workspaces is None else ["--workspaces", str(workspaces)]
        process = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_server, process)
        said: List[str] = []
        assert process.stderr is not None
        for text in process.stderr:
            said.append(text)
            found = re.search(r"listening on (http://[0-9.:]+)", text)
            if found:
                # Somebody has to read what it goes on saying.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return pstore.Server(found.group(1), token=issued["secret"])
        raise AssertionError(f"no server: {said}")

    def end_server(self, process: "subprocess.Popen[str]") -> None:
        process.terminate()
        process.wait(60)

    def end_mounts(self) -> None:
        for mount in self.host.mounts():
            self.host.ask("unmount", mount["mountpoint"], "--discard")

    def assert_nothing_is_left(self, chrome_major: int = CHROME) -> None:
        """No mount, and nobody holds the lock. A server needs a moment to notice that a caller went away."""
        profile, until = pstore.Profile(self.host, "acme/alice", chrome_major), time.monotonic() + 30
        while time.monotonic() < until:
            mounts, lock = self.host.mounts(), profile.lock_state().state
            if not mounts and lock == "free":
                return
        self.assertEqual(([each["mountpoint"] for each in mounts], lock), ([], "free"))


def main() -> Any:
    sys.path.insert(0, str(Path(__file__).parent))
    return unittest.main()

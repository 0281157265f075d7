"""Every example of docs/python.md runs, in order, as it stands there."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from unittest import mock

import pstore
from scene import PROGRAM, Scene

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Set-Cookie", "session=4711; Max-Age=100000")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class TheExamples(Scene):
    def test_every_example_runs(self) -> None:
        text = PAGE.read_text()
        blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        self.assertGreaterEqual(len(blocks), 9)
        major = re.search(r" (\d+)\.", subprocess.check_output(["chromium", "--version"], text=True))
        assert major is not None
        (self.folder / "project").mkdir()
        (self.folder / "project" / "main.py").write_text("first")
        server = self.serve(workspaces=self.folder)
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        # What stands for what is different on each host.
        meant = {
            "chrome_major=156": f"chrome_major={major.group(1)}",
            "http://127.0.0.1:8000": f"http://127.0.0.1:{site.server_port}",
            "file:///srv/pstore": f"file://{self.folder}/store",
            "http://127.0.0.1:7070": server._connection.url,
            "the secret": str(server._connection._token),
        }
        (self.udd / "Last Version").write_text(f"{major.group(1)}.0.0.0")
        environment = {
            "HOME": str(self.home), "PSTORE_CACHE_DIR": str(self.home / "cache"), "XDG_STATE_HOME": "",
            "PSTORE_STORE": f"file://{self.folder}/store", "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
        }
        (self.folder / "bin").mkdir()
        os.symlink(PROGRAM, self.folder / "bin" / "pstore")
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        names: "dict[str, object]" = {"pstore": pstore}
        with mock.patch.dict(os.environ, environment):
            for block in blocks:
                source = block.group(1)
                for said, now in meant.items():
                    source = source.replace(said, now)
                line = text[: block.start()].count("\n") + 1
                try:
                    exec(compile("\n" * line + source, str(PAGE), "exec"), names)
                except Exception as error:
                    raise AssertionError(f"the example in line {line} of {PAGE.name} fails") from error
        self.assert_nothing_is_left(int(major.group(1)))
        # The first one has logged in.
        profile = pstore.profile("acme/alice", chrome_major=int(major.group(1)), through=self.host)
        self.assertIn("Default/Cookies", [each.path for each in profile.entries("Default", at=profile.list()[0].sha256_prefix)])


if __name__ == "__main__":
    unittest.main()

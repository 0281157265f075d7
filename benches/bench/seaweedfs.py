"""An S3 server on 127.0.0.1 that ends with the `with` block."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

BUCKET = "pstore"
SECRET = "a-secret-only-for-benches"
ATTEMPTS = 3


class NotStarted(RuntimeError):
    """The server has ended, or does not answer."""


class SeaweedFs:
    """`scripts/setup-test-servers` installs the program."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder

    def __enter__(self) -> SeaweedFs:
        for attempt in range(ATTEMPTS):
            self._start()
            try:
                self._make_bucket()
                return self
            except BaseException as error:
                self.__exit__()
                # A port that was free a moment ago may be somebody else's by now.
                if not isinstance(error, NotStarted) or attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _start(self) -> None:
        self._ports = _free_ports()
        ports = dict(zip(("master", "volume", "filer", "admin", "s3"), self._ports))
        self.endpoint = f"http://127.0.0.1:{ports['s3']}"
        self._filer = f"http://127.0.0.1:{ports['filer']}/buckets/{BUCKET}/"
        data, access = self._folder / "data", self._folder / "access.json"
        data.mkdir(parents=True)
        access.write_text(json.dumps({"identities": [{
            "name": "admin", "credentials": [{"accessKey": "admin", "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}))
        options = [f"-{name}.port={port}" for name, port in ports.items()]
        options += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false", f"-dir={data}", f"-s3.config={access}"]
        command = [self._program, f"-logdir={self._folder}", "mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *options]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        # Whatever it is told, it makes its sockets here.
        for port in self._ports:
            for number in (port, port + 10000):
                for socket_file in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                    socket_file.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What lets pstore keep a store here."""
        return {"PSTORE_STORE": f"s3://{BUCKET}/store", "PSTORE_S3_ENDPOINT": self.endpoint, "AWS_ACCESS_KEY_ID": "admin",
                "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}

    def object(self, key: str) -> bytes:
        """The bytes of an object of the store, past S3."""
        with urllib.request.urlopen(f"{self._filer}store/{key}", timeout=30) as answer:
            return answer.read()

    def _make_bucket(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(self._filer, method="PUT"), timeout=5).close()
                urllib.request.urlopen(self.endpoint + "/", timeout=5).close()
                return
            except urllib.error.HTTPError as error:
                # The S3 side answers, if only to say that nobody signed this.
                if error.url.startswith(self.endpoint):
                    return
            except OSError:
                pass
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise NotStarted("SeaweedFS does not start")
            time.sleep(0.1)


def _free_ports() -> list[int]:
    """Five that are free, and so are those 10000 above, where SeaweedFS listens too."""
    found: list[int] = []
    for port in range(21000 + int(time.time()) % 2000 * 10, 45000):
        try:
            for wanted in (port, port + 10000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", wanted))
            found.append(port)
        except OSError:
            continue
        if len(found) == 5:
            return found
    raise RuntimeError("no free ports")

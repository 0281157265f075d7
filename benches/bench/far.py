"""An S3 server that is some milliseconds away."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.seaweedfs import SeaweedFs


class Far:
    """SeaweedFS behind the tests' proxy, which holds every answer back."""

    def __init__(self, weed: Path, proxy: Path, folder: Path, delay_ms: int) -> None:
        self._server, self._proxy, self._delay_ms = SeaweedFs(weed, folder), proxy, delay_ms

    def __enter__(self) -> Far:
        self._server.__enter__()
        try:
            address = self._server.endpoint.removeprefix("http://")
            command = [self._proxy, address, f"delay-ms={self._delay_ms}"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            self._endpoint = f"http://{self._process.stdout.readline().strip()}"
        except BaseException:
            self._server.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._server.__exit__()

    @property
    def near(self) -> dict[str, str]:
        """The same store without the delay."""
        return self._server.environment

    @property
    def environment(self) -> dict[str, str]:
        return {**self._server.environment, "PSTORE_S3_ENDPOINT": self._endpoint}

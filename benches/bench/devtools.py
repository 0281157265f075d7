"""A Chromium process and its DevTools connection.

Only what the profile maker needs: start, open a page, run a script in it, close
gracefully. Headless Chromium loses recent writes on SIGTERM, so `close` asks over
DevTools and waits for the exit.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class WebSocket:
    """The client half of RFC 6455, text messages only."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout)
        self._buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0] + b" ":
            raise ConnectionError(f"DevTools refused the connection: {head[:80]!r}")

    def _fill(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("DevTools closed the connection")
        self._buffer += data

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def send(self, text: str, opcode: int = 1) -> None:
        data = text.encode()
        if len(data) < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | len(data))
        elif len(data) < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, len(data))
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, len(data))
        # A zero mask is a valid mask and leaves the payload as it is.
        self._socket.sendall(head + bytes(4) + data)

    def receive(self) -> str:
        message = b""
        while True:
            first, second = self._take(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._take(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._take(8))
            data = self._take(length)
            opcode = first & 0x0F
            if opcode == 8:
                raise ConnectionError("DevTools said goodbye")
            if opcode == 9:
                self.send(data.decode(), opcode=10)
            elif opcode in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()

    def close(self) -> None:
        self._socket.close()


class Browser:
    """One running Chromium on one user-data-dir."""

    FLAGS = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--password-store=basic --remote-debugging-port=0"
    ).split()

    def __init__(self, program: str, directory: Path, cache_bytes: int) -> None:
        self._next_id = 0
        directory.mkdir(parents=True, exist_ok=True)
        port_file = directory / "DevToolsActivePort"
        port_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [program, *self.FLAGS, f"--disk-cache-size={cache_bytes}",
             f"--user-data-dir={directory}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        url = self._wait_for_url(port_file, 60)
        self._socket = WebSocket(url, timeout=180)

    def _wait_for_url(self, port_file: Path, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"chromium exited with {self._process.returncode} at start")
            lines = port_file.read_text().split("\n") if port_file.exists() else []
            if len(lines) >= 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.05)
        self._process.kill()
        raise TimeoutError("chromium opened no DevTools port")

    def call(self, method: str, params: dict[str, Any] | None = None,
             session: str | None = None) -> dict[str, Any]:
        self._next_id += 1
        request: dict[str, Any] = {"id": self._next_id, "method": method, "params": params or {}}
        if session:
            request["sessionId"] = session
        self._socket.send(json.dumps(request))
        while True:
            answer = json.loads(self._socket.receive())
            if answer.get("id") != self._next_id:
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return dict(answer["result"])

    def visit(self, url: str, script: str) -> Any:
        """Opens `url` in a new tab, awaits `script` there, closes the tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        try:
            result = self.call("Page.navigate", {"url": url}, session)
            if "errorText" in result:
                raise RuntimeError(f"{url}: {result['errorText']}")
            return self.evaluate(script, session)
        finally:
            self.call("Target.closeTarget", {"targetId": target})

    def evaluate(self, script: str, session: str) -> Any:
        expression = f"(async () => {{ {script} }})()"
        result = self.call(
            "Runtime.evaluate",
            {"expression": expression, "awaitPromise": True, "returnByValue": True}, session)
        if "exceptionDetails" in result:
            detail = result["exceptionDetails"]
            raise RuntimeError(detail.get("exception", {}).get("description", detail["text"]))
        return result["result"].get("value")

    def close(self) -> None:
        try:
            self.call("Browser.close")
        except ConnectionError:
            pass
        finally:
            self._socket.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError("chromium did not exit after Browser.close") from None

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._process.kill()
            self._process.wait()

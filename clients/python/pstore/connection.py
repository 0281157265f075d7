"""`Connection` asks a server over HTTP, HTTPS or a socket of this host."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import uuid
from typing import IO, Any, Callable, Dict, Mapping, Optional, Union
from urllib.parse import urlencode, urlsplit

from .door import Json, Watch
from .errors import CODES, PstoreError, from_document, invalid, unavailable

#: How long the server may be silent. It gives an outcome within 120 s.
_PATIENCE_SECONDS = 150.0
_KINDS = {400: "invalid_input", 401: "denied", 403: "denied", 404: "not_found", 409: "conflict", 503: "unavailable"}

Query = Mapping[str, Union[str, int, bool, None]]


class _Socket(http.client.HTTPConnection):
    """A connection to a socket in the file system."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Connection:
    """Where a server is, and who asks."""

    def __init__(self, url: str, token: Optional[str], context: Optional[ssl.SSLContext]) -> None:
        self.url = url
        self._token = token
        self._make = _maker(url, context)

    def ask(
        self,
        method: str,
        path: str,
        watch: Watch = Watch(),
        *,
        query: Optional[Query] = None,
        body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Json:
        """Sends a request and returns the document of the answer.

        If the connection ends before the answer, the request is sent once more. A server that has carried out the first one then
        gives the same answer.
        """
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        if method in ("POST", "DELETE"):
            sent["Idempotency-Key"] = uuid.uuid4().hex
        data = None if body is None else json.dumps(body).encode()
        try:
            return self._document(method, path, watch, query, data, sent)
        except (http.client.HTTPException, ConnectionError):
            watch.check()
        except OSError as error:
            # It was silent for too long; to wait as long again helps nobody.
            raise self._silent(error) from error
        try:
            return self._document(method, path, watch, query, data, sent)
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> PstoreError:
        return unavailable(f"{self.url} does not answer: {error or type(error).__name__}")

    def send_file(
        self, path: str, file: IO[bytes], size: int, watch: Watch, *, query: Query, headers: Mapping[str, str]
    ) -> Json:
        """Sends a file and returns the document of the answer."""
        sent = {"Content-Type": "application/zstd", "Content-Length": str(size), **headers}
        try:
            return self._document("POST", path, watch, query, file, sent)
        except (OSError, http.client.HTTPException) as error:
            watch.check()
            raise unavailable(f"{self.url} went away during the upload: {error}") from error

    def receive(self, path: str, query: Query, take: Callable[[bytes], None], watch: Watch) -> int:
        """Asks for bytes, and gives them to `take` piece by piece. Raises if fewer arrive than the server said."""
        try:
            return self._receive(path, query, take, watch)
        except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
            watch.check()
            raise self._silent(error) from error

    def _receive(self, path: str, query: Query, take: Callable[[bytes], None], watch: Watch) -> int:
        with _Exchange(self, "GET", path, query, None, {}, watch) as answer:
            _judge(answer)
            said = answer.getheader("Content-Length")
            came = 0
            while True:
                piece = answer.read(1 << 20)
                if not piece:
                    break
                came += len(piece)
                take(piece)
                watch.check()
            if said is not None and came != int(said):
                raise PstoreError(
                    "the server could not verify every byte, and stopped", kind="damaged", exit_code=10
                )
            return came

    def _document(
        self,
        method: str,
        path: str,
        watch: Watch,
        query: Optional[Query],
        data: Union[bytes, IO[bytes], None],
        headers: Mapping[str, str],
    ) -> Json:
        with _Exchange(self, method, path, query, data, headers, watch) as answer:
            _judge(answer)
            try:
                document = json.loads(answer.read())
            except ValueError as error:
                raise unavailable(
                    f"{self.url} answered {answer.status} with something that is no document",
                    "is something other than pstore in between?",
                ) from error
            return document if isinstance(document, dict) else {}


class _Exchange:
    """One request and its answer. Whoever cancels closes the connection."""

    def __init__(
        self,
        connection: Connection,
        method: str,
        path: str,
        query: Optional[Query],
        data: Union[bytes, IO[bytes], None],
        headers: Mapping[str, str],
        watch: Watch,
    ) -> None:
        self._connection = connection
        self._watch = watch
        self._http = connection._make()
        self._method = method
        words = {name: _word(value) for name, value in (query or {}).items() if value not in (None, False)}
        self._target = path + ("?" + urlencode(words) if words else "")
        self._data = data
        self._headers: Dict[str, str] = dict(headers)
        if connection._token is not None:
            self._headers["Authorization"] = f"Bearer {connection._token}"

    def __enter__(self) -> http.client.HTTPResponse:
        self._watch.check()
        if self._watch.cancel is not None:
            self._watch.cancel.on_cancel(self._shut)
        try:
            try:
                self._http.connect()
            except OSError as error:
                self._watch.check()
                raise unavailable(
                    f"cannot reach {self._connection.url}: {error}", "is `pstore serve` running there?"
                ) from error
            try:
                self._http.request(self._method, self._target, self._data, self._headers)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses a long body answers before it has read it.
                pass
            return self._http.getresponse()
        except BaseException:
            self._end()
            self._watch.check()
            raise

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self._end()
        if isinstance(error, (OSError, http.client.HTTPException)):
            self._watch.check()

    def _end(self) -> None:
        if self._watch.cancel is not None:
            self._watch.cancel.forget(self._shut)
        self._http.close()

    def _shut(self) -> None:
        sock = self._http.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _judge(answer: http.client.HTTPResponse) -> None:
    """Raises what the server refused."""
    if answer.status < 300:
        return
    try:
        problem = json.loads(answer.read())
    except (ValueError, http.client.HTTPException):
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    kind = problem.get("kind") or _KINDS.get(answer.status, "internal")
    problem = {"exit_code": CODES.get(kind, 1), "detail": f"the server answered {answer.status}", **problem, "kind": kind}
    raise from_document(problem)


def _word(value: Union[str, int, bool, None]) -> str:
    return "true" if value is True else str(value)


def _maker(url: str, context: Optional[ssl.SSLContext]) -> Callable[[], http.client.HTTPConnection]:
    if url.startswith("unix:/"):
        return lambda: _Socket(url[len("unix:") :], _PATIENCE_SECONDS)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise invalid(f"{url!r} is no server", "it takes http://HOST:PORT, https://HOST or unix:/path")
    host, port = parts.hostname, parts.port
    if parts.scheme == "https":
        trust = context or ssl.create_default_context()
        return lambda: http.client.HTTPSConnection(host, port, timeout=_PATIENCE_SECONDS, context=trust)
    return lambda: http.client.HTTPConnection(host, port, timeout=_PATIENCE_SECONDS)

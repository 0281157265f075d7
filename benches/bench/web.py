"""The local web that the browser visits: a server on 127.0.0.1, many sites on it.

`site7.localhost` and its like reach the same server (Chromium maps them to loopback and
treats them as secure), so each site is an origin of its own. Every site has pages with
images, fonts, scripts and styles. A site is also an app when `is_app`: a service worker
that keeps its assets in CacheStorage, a mailbox in IndexedDB, and a database file in the
origin's private file system that is written in place.

An app's assets carry the release that last changed them in their name. A release changes
a fixed share of them, as a deployment does.
"""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from . import content

APP_SCRIPTS = 26
APP_IMAGES = 32
CHANGED_PER_RELEASE = 5  # one asset in so many

_TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript", "css": "text/css", "json": "application/json",
          "jpg": "image/jpeg", "woff2": "font/woff2", "m4s": "video/mp4", "webp": "image/webp"}
_COMPRESSED = ("html", "js", "css")
_REVALIDATED = ("jpg", "webp", "m4s")

_PAGE_SCRIPT = (Path(__file__).parent / "page.js").read_text()
_WORKER_SCRIPT = (Path(__file__).parent / "worker.js").read_text()


class Web:
    """What every path of every site answers."""

    def __init__(self, seed: int, is_app: dict[int, bool]) -> None:
        self.seed = seed
        self.is_app = is_app
        self.release = 0
        # Generation of one body is pure; the cache only saves time when many pages share a bundle.
        self._cached = lru_cache(maxsize=400)(self._make)

    def answer(self, site: int, target: str) -> tuple[str, bytes]:
        """The kind (file ending) and the body for a request."""
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        name = parts.path.rsplit("/", 1)[-1]
        kind = name.rsplit(".", 1)[-1] if "." in name else "html"
        if parts.path == "/sw.js":
            release = int(query["release"][0])
            return "js", f"const ASSETS = {json.dumps(self.assets(site, release))};\n{_WORKER_SCRIPT}".encode()
        if parts.path.startswith("/page/"):
            return "html", self._page(site, int(name))
        wanted = int(query["bytes"][0]) if "bytes" in query else 0
        return kind, self._cached(site, f"{parts.path}?{parts.query}", kind, wanted)

    def assets(self, site: int, release: int) -> list[str]:
        names = [("js", f"chunk{i}") for i in range(APP_SCRIPTS)] + [("jpg", f"art{i}") for i in range(APP_IMAGES)]
        out = []
        for index, (kind, name) in enumerate(names):
            changed = [r for r in range(1, release + 1) if (index + r * 2) % CHANGED_PER_RELEASE == 0]
            out.append(f"/asset/{name}-{changed[-1] if changed else 0}.{kind}")
        return out

    def _make(self, site: int, path: str, kind: str, wanted: int) -> bytes:
        rng = content.source(self.seed, f"{site}{path}")
        if kind == "js":
            mean = {"vendor": 420_000, "app": 260_000}.get(path.split("/")[-1].split("-")[0], 110_000)
            return content.script(rng, self.seed, f"{site}{path}", wanted or content.size(rng, mean, 0.5)).encode()
        if kind == "css":
            return content.style(rng, self.seed, content.size(rng, 60_000, 0.4)).encode()
        if kind == "json":
            return content.records(rng, self.seed, wanted or content.size(rng, 50_000)).encode()
        if kind == "jpg":
            return content.jpeg(rng, content.size(rng, 120_000))
        if kind == "woff2":
            return content.opaque(rng, b"wOF2", content.size(rng, 42_000, 0.3))
        if kind == "webp":
            return content.opaque(rng, b"RIFF", content.size(rng, 24_000))
        return content.opaque(rng, b"\0\0\0\x18styp", content.size(rng, 150_000, 0.6))

    def _page(self, site: int, number: int) -> bytes:
        rng = content.source(self.seed, f"{site}/page/{number}")
        images = [f"/img/{number}-{i}.jpg" for i in range(rng.randint(3, 7))]
        thumbs = [f"/img/{number}-{i}.webp" for i in range(rng.randint(1, 4))]
        fetches = [f"/api/{number}-{i}.json" for i in range(2)]
        fetches += [f"/media/{number}-{i}.m4s" for i in range(rng.choice((0, 0, 1, 2)))]
        data = {"page": number, "app": self.is_app[site], "release": self.release, "fetches": fetches}
        title = " ".join(content.words(rng, self.seed, 5)).title()
        paragraphs = "".join(f"<p class=a>{content.prose(rng, self.seed, rng.randint(200, 900))}</p>\n" for _ in range(rng.randint(20, 60)))
        pictures = "".join(f'<img src="{u}" width=64 height=48>\n' for u in images + thumbs)
        fonts = "".join(f"@font-face{{font-family:f{i};src:url(/font/{i}.woff2)}}.f{i}{{font-family:f{i}}}" for i in range(3))
        return (
            f"<!doctype html><html><head><title>{title}</title><style>{fonts}</style>"
            f'<link rel=stylesheet href="/static/site-{number // 400}.css">'
            f'<script src="/static/vendor-{self.release // 3}.js"></script>'
            f'<script src="/static/app-{self.release // 2}.js"></script>'
            f"</head><body><h1>{title}</h1>{paragraphs}{pictures}"
            f"<i class=f0>a</i><i class=f1>b</i><i class=f2>c</i>"
            f"<script>const DATA = {json.dumps(data)};\n{_PAGE_SCRIPT}</script></body></html>"
        ).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    web: Web

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").split(".")[0]
        if not host.startswith("site") or self.path == "/favicon.ico":
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        site = int(host[4:])
        tag = f'"{zlib.crc32(f"{site}{self.path}".encode()):08x}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(304)
            self.send_header("ETag", tag)
            self.send_header("Cache-Control", "no-cache")
            self.end_headers()
            return
        kind, body = self.web.answer(site, self.path)
        self.send_response(200)
        self.send_header("Content-Type", _TYPES[kind])
        if kind in _COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 6, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        if kind == "html":
            rng = content.source(self.web.seed, f"{site}{self.path}/cookie")
            for name in ("session", "consent", "ab", "visitor"):
                self.send_header("Set-Cookie", f"{name}={rng.randbytes(40).hex()}; Max-Age=31536000; Path=/; HttpOnly")
        # Much of a real cache is revalidated on a revisit: the 304 rewrites an entry's headers, not its body.
        if kind in _REVALIDATED:
            self.send_header("ETag", tag)
        fresh = kind not in _REVALIDATED and kind != "html" and not self.path.startswith("/sw.js")
        self.send_header("Cache-Control", "max-age=31536000" if fresh else "no-cache")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A closed tab drops its connections; that is no error."""


class WebServer:
    """`web`, served on 127.0.0.1 while the `with` block runs."""

    def __init__(self, web: Web, port: int) -> None:
        handler = type("Handler", (_Handler,), {"web": web})
        self._server = _QuietServer(("127.0.0.1", port), handler)
        self.port = self._server.server_address[1]

    def __enter__(self) -> WebServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, site: int, path: str) -> str:
        return f"http://site{site}.localhost:{self.port}{path}"

"""`Server` reaches pstore through `pstore serve`, over HTTP or a socket of this host."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union, cast
from urllib.parse import quote

from . import archive
from .agent_tools import AgentTools
from .connection import Connection
from .door import Capture, Door, Json, Name, Watch
from .errors import Cancelled, LockHeld, PstoreError, invalid, not_offered
from .progress import Progress
from .received import Receiver

LOG = logging.getLogger("pstore")

#: How long a server lets one request wait for a lock.
_MAX_WAIT_SECONDS = 60
#: How often a follower of events looks again.
_LOOK_AGAIN_SECONDS = 2.0
_PAGE = 1000


class Server(Door):
    """A `pstore serve`: `http://HOST:PORT`, `https://HOST` or `unix:/path`.

    `token` is the secret of an access token; a user whom the server knows at its socket needs none. `context` is for servers with a
    certificate that this host does not trust by itself, and for certificates of clients.
    """

    def __init__(self, url: str, *, token: Optional[str] = None, context: Optional[ssl.SSLContext] = None) -> None:
        self._connection = Connection(url.rstrip("/"), token, context)
        self._tools = AgentTools(self._connection)

    def ask(self, method: str, path: str, **query: Any) -> Json:
        """Sends any other request, and returns its document: `server.ask("GET", "/v1/sessions")`."""
        return self._connection.ask(method, path, query=query)

    def snapshot(
        self, name: Name, directory: Path, capture: Capture, lock_token: Optional[str], wait: int, watch: Watch
    ) -> Json:
        if capture != Capture():
            raise not_offered("a server takes no options of a capture", "leave out `capture`")
        if wait:
            raise not_offered("an upload does not wait for a lock", "take it first: profile.lock(wait=…)")
        major = name.chrome_major if name.chrome_major is not None else _chrome_of(directory)
        with tempfile.TemporaryFile(prefix="pstore-") as file:
            writer = archive.ZstdWriter(file)

            def told(files: int, done: int) -> None:
                watch.check()
                if watch.progress is not None:
                    watch.progress(Progress("reading", files, 0, done, 0))

            archive.write(directory, writer, told)
            digest = writer.finish()
            file.seek(0)
            query: Dict[str, Any] = {"chrome_major_version": major, "sha256": digest}
            headers = {} if lock_token is None else {"Pstore-Lease": lock_token}
            sent = _Told(file, writer.size, watch)
            path = _of(name) + "/uploads"
            file_like = cast(IO[bytes], sent)
            return self._connection.send_file(path, file_like, writer.size, watch, query=query, headers=headers)

    def restore(
        self, name: Name, reference: Optional[str], target: Path, replace: bool, load_for_chrome: bool, watch: Watch
    ) -> Json:
        receiver = Receiver(target, replace)
        facts: Dict[str, Any] = {"outcome": "restored", "reason": None, "warnings": []}
        if load_for_chrome:
            if reference is not None:
                raise not_offered("a server loads the current snapshot alone", "leave out `at`")
            body = {"chrome_major_version": name.chrome_major}
            loaded = self._connection.ask("POST", _of(name) + "/loads", watch, body=body)
            facts = {"outcome": loaded["outcome"], "reason": loaded.get("reason"), "warnings": loaded["warnings"]}
            snapshot = loaded.get("snapshot")
            if loaded["outcome"] != "success" or snapshot is None:
                receiver.finish_empty()
                return {**facts, "target": str(target), "sha256_prefix": None}
            reference = snapshot["sha256_prefix"]
        tree = self._tree(name, reference, "", True, watch)
        at = tree["sha256_prefix"]

        def fetch(path: bytes, take: Callable[[bytes], None]) -> int:
            return self._connection.receive(f"{_of(name, at)}/files/{quote(path)}", _chrome(name), take, watch)

        files, size = receiver.receive(tree["entries"], fetch, watch)
        return {
            **facts,
            "target": str(target),
            "sha256_prefix": at,
            "files": files,
            "uncompressed_size_bytes": size,
        }

    def mount(
        self,
        name: Name,
        reference: Optional[str],
        mountpoint: Optional[Path],
        mode: str,
        wait: int,
        options: Sequence[str],
        watch: Watch,
    ) -> Json:
        if mountpoint is not None:
            raise not_offered("a server chooses the directory of a mount", "leave out `path`, and use `mount.path`")
        if options:
            raise not_offered("a server takes no options of a mount", "leave out `options`")
        body: Dict[str, Any] = {"tenant_id": name.tenant, "profile_id": name.profile, **_chrome(name)}
        if reference is not None:
            body["sha_prefix"] = reference
        if mode != "locked":
            body[mode] = True

        def once(seconds: int) -> Json:
            request = uuid.uuid4().hex
            # Without a wait it is short: whoever cancels gets the mount first, and ends it.
            patient = watch if seconds else Watch(watch.progress)
            whole = {**body, "wait": seconds}
            try:
                return self._connection.ask("POST", "/v1/mounts", patient, body=whole, headers={"X-Request-Id": request})
            except Cancelled:
                self._give_back(name, request)
                raise

        return _waiting(wait, once, watch)

    def _give_back(self, name: Name, request: str) -> None:
        """Ends the mount of a request that was cut when its answer was on the way already."""
        try:
            if self.lock_state(name).get("holder_host_run_id") != f"request {request}":
                return
            for each in self.mounts():
                of = (each.get("tenant_id"), each.get("profile_id"), each.get("mode"))
                if of == (name.tenant, name.profile, "locked"):
                    self.unmount(each, "keep", Capture(), Watch())
        except PstoreError as error:
            # The server has ended it by then, or ends it.
            LOG.debug("the mount of a request that was cut: %s", error)

    def commit(self, mount: Json, other: Optional[Name], force: bool, capture: Capture, watch: Watch) -> Json:
        if other is not None or force:
            raise not_offered("a server commits a mount to its own profile alone", "do it where the program is: pstore.Host()")
        if capture != Capture(mode=capture.mode):
            raise not_offered("a server takes no options of a capture but the mode", "leave out the others")
        query = {} if capture.mode == "cold" else {"mode": capture.mode}
        return self._connection.ask("POST", f"/v1/mounts/{mount['mount_id']}/commit", watch, query=query)

    def unmount(self, mount: Json, changes: Optional[str], capture: Capture, watch: Watch) -> Json:
        if capture != Capture():
            raise not_offered("a server takes no options of a capture at the end of a mount", "leave out `capture`")
        return self._connection.ask("DELETE", f"/v1/mounts/{mount['mount_id']}", watch, query={"changes": changes})

    def set_aside(self, mount: Json) -> Json:
        return self.unmount(mount, "set_aside", Capture(), Watch())

    def mounts(self) -> List[Json]:
        return list(self._connection.ask("GET", "/v1/mounts")["mounts"])

    def run(
        self,
        name: Name,
        command: Sequence[str],
        capture: Capture,
        wait: int,
        options: Sequence[str],
        output: Optional[IO[bytes]],
        watch: Watch,
    ) -> Json:
        """Runs the command here, on a mount of the server: both are on one host, or share its directory of mounts."""
        if capture != Capture(reason="run_end"):
            raise not_offered("a server takes no options of a capture at the end of a run", "leave out `capture`")
        mount = self.mount(name, None, None, "locked", wait, options, watch)
        path = mount["mountpoint"]
        words = [word.replace("{profile}", path) for word in command]
        if words == list(command):
            words.append(f"--user-data-dir={path}")
        facts = {"load": "success" if mount.get("record") else mount.get("fallback") or "no_prior_state", "lock_lost": False}
        try:
            code = _command(words, path, output, watch)
        except BaseException:
            self.unmount(mount, "keep", Capture(), Watch())
            raise
        try:
            ended = self.unmount(mount, "commit", Capture(), Watch())
        except PstoreError as error:
            self.unmount(mount, "keep", Capture(), Watch())
            failed = {"snapshot_failed": True, "snapshot_error": _error(error), "snapshot": None}
            lost = error.kind == "lock_lost"
            return {**facts, **failed, "lock_lost": lost, "command_exit_code": code, "warnings": mount["warnings"]}
        stored = {"snapshot_failed": False, "snapshot": ended.get("committed"), "warnings": mount["warnings"]}
        return {**facts, **stored, "command_exit_code": code}

    def list(self, name: Name) -> List[Json]:
        rows: List[Json] = []
        after: Optional[str] = None
        while True:
            query = {**_chrome(name), "limit": _PAGE, "after": after}
            page = self._connection.ask("GET", _of(name), query=query)
            rows += page["snapshots"]
            after = page.get("next")
            if after is None:
                return rows

    def profiles(self, tenant: str) -> List[str]:
        names: Dict[str, None] = {}
        skip = 0
        while True:
            page = self._connection.ask("GET", "/v1/profiles", query={"tenant_id": tenant, "skip": skip, "limit": 500})
            for row in page["rows"]:
                names[row["profile_id"]] = None
            if page.get("next") is None:
                return sorted(names)
            skip = page["next"]

    def show(self, name: Name, reference: Optional[str]) -> Json:
        return self._get(name, reference)

    def history(self, name: Name, reference: Optional[str]) -> Json:
        return self._get(name, reference, "/history")

    def diff(self, name: Name, before: str, after: str, totals_only: bool) -> Json:
        return self._get(name, before, f"/diff/{quote(after, safe='')}", stat=totals_only)

    def rollback(self, name: Name, reference: str, reason: str, confirm: bool, force: bool) -> Json:
        body = {"sha_prefix": reference, "reason": reason, "confirm": confirm, "force": force, **_chrome(name)}
        return self._connection.ask("POST", _of(name) + "/rollback", body=body)

    def tag(self, name: Name, reference: Optional[str], tag: str, is_added: bool) -> Json:
        path = f"{_of(name, reference or 'latest')}/tags/{quote(tag, safe='')}"
        return self._connection.ask("PUT" if is_added else "DELETE", path, query=_chrome(name))

    def delete(self, name: Name, reference: str, reason: str, tagged: bool) -> Json:
        query = {**_chrome(name), "reason": reason, "tagged": tagged}
        return self._connection.ask("DELETE", _of(name, reference), query=query)

    def entries(self, name: Name, reference: Optional[str], path: str, recursive: bool) -> List[Json]:
        return list(self._tree(name, reference, path, recursive, Watch())["entries"])

    def _tree(self, name: Name, reference: Optional[str], path: str, recursive: bool, watch: Watch) -> Json:
        query = {**_chrome(name), "path": path, "recursive": recursive}
        return self._connection.ask("GET", _of(name, reference or "latest") + "/tree", watch, query=query)

    def read(self, name: Name, reference: Optional[str], path: str) -> bytes:
        pieces: List[bytes] = []
        whole = f"{_of(name, reference or 'latest')}/files/{quote(path)}"
        self._connection.receive(whole, _chrome(name), pieces.append, Watch())
        return b"".join(pieces)

    def acquire(self, name: Name, run_id: Optional[str], ttl: Optional[int], wait: int, watch: Watch) -> Json:
        holder = run_id or os.environ.get("PSTORE_RUN_ID") or f"python-{uuid.uuid4().hex[:12]}"
        body: Dict[str, Any] = {"holder_run_id": holder, "holder_host": socket.gethostname(), **_chrome(name)}
        if ttl is not None:
            body["ttl_seconds"] = ttl

        def once(seconds: int) -> Json:
            return self._connection.ask("POST", _of(name) + "/leases", watch, query={"wait": seconds}, body=body)

        return _waiting(wait, once, watch)

    def renew(self, name: Name, token: str) -> Json:
        return self._connection.ask("PUT", _of(name) + "/leases", body={"token": token, **_chrome(name)})

    def release(self, name: Name, token: str) -> Json:
        return self._connection.ask("DELETE", _of(name) + "/leases", body={"token": token, **_chrome(name)})

    def lock_state(self, name: Name) -> Json:
        return self._connection.ask("GET", _of(name) + "/leases", query=_chrome(name))

    def events(self, name: Name, after: Optional[str], follow: bool, watch: Watch) -> Iterator[Json]:
        if not follow:
            log = self._connection.ask("GET", _of(name) + "/events", watch, query={**_chrome(name), "last": _PAGE})
            events = list(log["events"])
            ids = [event["event_id"] for event in events]
            if after is not None:
                events = events[ids.index(after) + 1 :] if after in ids else []
            yield from events
            return
        while True:
            query = {"tenant_id": name.tenant, "after": after, "limit": _PAGE}
            page = self._connection.ask("GET", "/v1/events", watch, query=query)
            for event in page["events"]:
                # What callers have asked for is told of the tenant, and not of its profiles.
                if event.get("profile_id") == name.profile and event["kind"] != "request":
                    yield event
            after = page.get("next") or after
            if page["has_more"]:
                continue
            until = time.monotonic() + _LOOK_AGAIN_SECONDS
            while time.monotonic() < until:
                watch.check()
                time.sleep(0.05)

    def start_workspace(
        self, place: str, profile: Optional[Name], watch: bool, numbers: Mapping[str, Optional[int]]
    ) -> Json:
        raise _on_its_host("a server starts no workspace")

    def stop_workspace(self, place: str) -> Json:
        raise _on_its_host("a server stops no workspace")

    def workspace_state(self, place: str) -> Json:
        raise _on_its_host("a server does not tell whether a workspace is watched")

    def take_checkpoint(self, place: str, name: Optional[str], trigger: str, run_id: str, description: str) -> Json:
        if trigger != "manual" or run_id:
            raise _on_its_host("a server takes no checkpoints of runs")
        return self._tools.create(place, name, description)

    def checkpoints(self, place: str) -> List[Json]:
        return self._tools.list(place)

    def workspace_changes(
        self, place: str, path: str, since: Optional[str], page: Union[int, str, None], limit: int
    ) -> Json:
        return self._tools.changes(place, path, since, page, limit)

    def revert(self, place: str, path: str, to: Optional[str], preview: bool) -> Json:
        return self._tools.revert(place, path, to, preview)

    def path_history(self, place: str, path: str) -> Json:
        return self._tools.history(place, path)

    def delete_checkpoint(self, place: str, checkpoint: str) -> Json:
        return self._tools.delete(place, checkpoint)

    def fork_workspace(self, place: str, target: str, profile: Optional[Name], at: Optional[str]) -> str:
        if profile is not None:
            raise not_offered("a server names the profile of a fork itself", "leave out `profile`")
        return self._tools.fork(place, target, at)

    def file_events(self, place: str, checkpoint: Optional[str], after: int, limit: int) -> Json:
        raise _on_its_host("a server tells no events of files")

    def _get(self, name: Name, reference: Optional[str], more: str = "", **query: Any) -> Json:
        path = _of(name, reference or "latest") + more
        return self._connection.ask("GET", path, query={**_chrome(name), **query})


def _on_its_host(what: str) -> PstoreError:
    return not_offered(what, "do it where the workspace is: pstore.workspace(DIRECTORY, through=pstore.Host())")


class _Told:
    """A file that tells how much of it was read."""

    def __init__(self, file: IO[bytes], size: int, watch: Watch) -> None:
        self._file = file
        self._size = size
        self._watch = watch
        self._done = 0

    def read(self, count: int = -1) -> bytes:
        self._watch.check()
        piece = self._file.read(count)
        self._done += len(piece)
        if self._watch.progress is not None:
            self._watch.progress(Progress("sending", 0, 0, self._done, self._size))
        return piece


def _of(name: Name, reference: Optional[str] = None) -> str:
    path = f"/v1/profile-snapshots/{quote(name.tenant, safe='')}/{quote(name.profile, safe='')}"
    return path if reference is None else f"{path}/{quote(reference, safe='~:+')}"


def _chrome(name: Name) -> Dict[str, Any]:
    return {} if name.chrome_major is None else {"chrome_major_version": name.chrome_major}


def _chrome_of(directory: Path) -> int:
    """The version of Chrome that wrote a directory, as the program finds it."""
    try:
        text = (directory / "Last Version").read_text("ascii").strip()
        return int(text.split(".")[0])
    except (OSError, ValueError):
        raise invalid(
            f"{directory} does not say which Chrome wrote it", "name it: pstore.profile(NAME, chrome_major=131)"
        ) from None


def _waiting(wait: int, once: Callable[[int], Json], watch: Watch) -> Json:
    """Asks for a lock, again and again if it takes longer than a server lets one request wait."""
    until = time.monotonic() + wait
    while True:
        left = max(0, int(until - time.monotonic() + 0.5))
        try:
            return once(min(left, _MAX_WAIT_SECONDS))
        except LockHeld:
            watch.check()
            if left <= _MAX_WAIT_SECONDS:
                raise


def _command(words: Sequence[str], path: str, output: Optional[IO[bytes]], watch: Watch) -> int:
    """Runs a command on a mount, without the secrets of the caller."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PSTORE_", "AWS_"))}
    variables["PSTORE_PROFILE"] = path
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables
    )
    if watch.cancel is not None:
        watch.cancel.on_cancel(process.terminate)
    try:
        code = process.wait()
        watch.check()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        if watch.cancel is not None:
            watch.cancel.forget(process.terminate)
    return 128 - code if code < 0 else code


def _error(error: PstoreError) -> Json:
    return {"kind": error.kind, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}

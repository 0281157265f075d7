"""A server that misbehaves: every error is a `PstoreError`, and what was carried out is not carried out again."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Callable, Dict, List
from unittest import mock

import pstore
from pstore import connection
from pstore.received import Receiver
from scene import Scene

#: Sends whatever it wants to a connection; given the number of the request and its head.
Answer = Callable[[int, str, socket.socket], None]


class Peer:
    """A server whose answers are made up. It closes each connection after one."""

    def __init__(self, answer: Answer) -> None:
        self.heads: List[str] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def header(self, request: int, name: str) -> str:
        lines = dict(line.split(": ", 1) for line in self.heads[request].splitlines()[1:] if ": " in line)
        return lines[name]

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(stream,), daemon=True).start()

    def _one(self, stream: socket.socket) -> None:
        with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += stream.recv(4096)
            self.heads.append(head.decode())
            self._answer(len(self.heads), head.decode(), stream)


def document(stream: socket.socket, body: Dict[str, object]) -> None:
    text = json.dumps(body).encode()
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))


class Misbehaving(unittest.TestCase):
    def peer(self, answer: Answer) -> Peer:
        peer = Peer(answer)
        self.addCleanup(peer.close)
        return peer

    def unavailable(self, peer: Peer) -> pstore.PstoreError:
        with self.assertRaises(pstore.PstoreError) as caught:
            pstore.profile("acme/alice", through=pstore.Server(peer.url)).list()
        self.assertEqual(caught.exception.kind, "unavailable")
        self.assertIn(peer.url, caught.exception.message)
        return caught.exception

    def test_one_that_never_answers(self) -> None:
        over = threading.Event()
        self.addCleanup(over.set)
        peer = self.peer(lambda number, head, stream: over.wait(60) and None)
        with mock.patch.object(connection, "_PATIENCE_SECONDS", 0.3):
            self.unavailable(peer)
        self.assertEqual(len(peer.heads), 1)

    def test_one_whose_answer_is_cut_short_or_no_document(self) -> None:
        for said in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
            b"what is this\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html",
            b"",
        ):
            with self.subTest(said=said):
                self.unavailable(self.peer(lambda number, head, stream, said=said: stream.sendall(said)))

    def test_a_file_that_is_cut_short(self) -> None:
        peer = self.peer(lambda number, head, stream: stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"))
        with self.assertRaises(pstore.PstoreError):
            pstore.profile("acme/alice", through=pstore.Server(peer.url)).read("Preferences")

    def test_a_deletion_whose_answer_is_lost_is_sent_again_under_the_same_key(self) -> None:
        def answer(number: int, head: str, stream: socket.socket) -> None:
            if number > 1:
                document(stream, {})

        peer = self.peer(answer)
        pstore.Server(peer.url)._connection.ask("DELETE", "/v1/mounts/1", query={"changes": "commit"})
        self.assertEqual([head.split(" ")[0] for head in peer.heads], ["DELETE", "DELETE"])
        self.assertEqual(peer.header(0, "Idempotency-Key"), peer.header(1, "Idempotency-Key"))

    def test_a_lock_is_renewed_again_after_an_answer_that_is_none(self) -> None:
        def answer(number: int, head: str, stream: socket.socket) -> None:
            lease = {"token": f"t{number}", "renewed_at_ms": 0, "expires_at_ms": 5000}
            if number == 2:
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html")
            else:
                document(stream, lease)

        peer = self.peer(answer)
        lock = pstore.profile("acme/alice", chrome_major=131, through=pstore.Server(peer.url)).lock()
        until = time.monotonic() + 30
        while lock.token == "t1" and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(lock.token, "t3")
        lock.release()


class Names(Scene):
    def test_no_name_is_an_option_of_the_program(self) -> None:
        for name in ("--config=uploads/x", "-v /x", "acme/a b", "acme/", "/alice", "acme/al@ice", "acme/.x", "a/b/c"):
            with self.subTest(name=name), self.assertRaises(pstore.InvalidInput):
                self.profile(name)
        with self.assertRaises(pstore.PstoreError) as caught:
            self.host.profiles("--version")
        self.assertNotEqual(caught.exception.kind, "internal")

    def test_a_name_may_begin_with_a_dash(self) -> None:
        profile = self.profile("-acme/-v")
        stored = profile.snapshot(self.udd)
        self.assertEqual([each.sha256_prefix for each in profile.list()], [stored.sha256_prefix])
        profile.show()
        self.assertEqual(profile.lock_state().state, "free")
        self.assertEqual(self.host.profiles("-acme"), ["-v"])
        with profile.mount() as mounted:
            self.assertEqual((mounted / "Preferences").read_text(), "first")
        with self.assertRaises(pstore.InvalidInput):
            profile.run(["true"])


class Replaced(unittest.TestCase):
    def test_a_directory_that_cannot_be_replaced_stays(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="pstore-test-"))
        self.addCleanup(shutil.rmtree, folder)
        target = folder / "out"
        target.mkdir()
        (target / "Preferences").write_text("first")
        with self.assertRaises(FileNotFoundError):
            Receiver(target, replace=True)._put(os.fspath(folder / "gone"))
        self.assertEqual((target / "Preferences").read_text(), "first")
        self.assertEqual(os.listdir(folder), ["out"])

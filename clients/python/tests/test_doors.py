"""The same profile through the program and through a server: what one does, the other does."""

from __future__ import annotations

import os
import threading
import unittest
from pathlib import Path

import pstore
from scene import CHROME, PROGRAM, Scene


class AnyDoor:
    """What holds through every door."""

    def test_a_snapshot_comes_back_as_it_was(self: Scene) -> None:
        os.symlink("Preferences", self.udd / "link")
        os.link(self.udd / "Preferences", self.udd / "same")
        odd = self.udd / "Default" / "ä b?#%"
        odd.write_text("odd")
        odd.chmod(0o640)
        os.utime(odd, (1_700_000_000, 1_700_000_000))
        (self.udd / "empty").mkdir()
        os.mkfifo(self.udd / "fifo")
        stored = self.profile().snapshot(self.udd)
        self.assertEqual((stored.outcome, stored.is_new), ("stored", True))
        self.assertFalse(self.profile().snapshot(self.udd).is_new)
        out = self.folder / "out"
        restored = self.profile().restore(out)
        self.assertEqual(restored.sha256_prefix, stored.sha256_prefix)
        self.assertEqual((out / "Default" / "Cookies").read_bytes(), (self.udd / "Default" / "Cookies").read_bytes())
        self.assertEqual(os.readlink(out / "link"), "Preferences")
        self.assertTrue((out / "same").samefile(out / "Preferences"))
        copy = out / "Default" / "ä b?#%"
        self.assertEqual((copy.read_text(), copy.stat().st_mode & 0o777), ("odd", 0o640))
        self.assertEqual(copy.stat().st_mtime, 1_700_000_000)
        self.assertTrue((out / "empty").is_dir())
        self.assertFalse((out / "fifo").exists())
        with self.assertRaises(pstore.TargetExists) as caught:
            self.profile().restore(out)
        self.assertEqual((caught.exception.kind, caught.exception.exit_code), ("target_exists", 5))
        (self.udd / "Preferences").write_text("second")
        self.profile().snapshot(self.udd)
        self.profile().restore(out, replace=True)
        self.assertEqual((out / "Preferences").read_text(), "second")
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".pstore")], [])

    def test_one_looks_around_and_goes_back(self: Scene) -> None:
        profile = self.profile()
        first = profile.snapshot(self.udd)
        (self.udd / "Preferences").write_text("second")
        second = profile.snapshot(self.udd)
        listed = profile.list()
        self.assertEqual([each.sha256_prefix for each in listed], [first.sha256_prefix, second.sha256_prefix])
        self.assertEqual([each.latest for each in listed], [False, True])
        current = profile.current()
        assert current is not None
        self.assertEqual(current.sha256_prefix, second.sha256_prefix)
        self.assertEqual(self.door.profiles("acme"), ["alice"])
        self.assertEqual(profile.show("latest~1")["record"], first.record)
        self.assertEqual([each["record"] for each in profile.history()], [second.record, first.record])
        diff = profile.diff("latest~1")
        self.assertEqual((diff.changed, [each.path for each in diff.changes if each.change == "content"]), (1, ["Preferences"]))
        self.assertEqual(profile.diff("latest~1", totals_only=True).changes, [])
        paths = [each.path for each in profile.entries(recursive=True)]
        self.assertEqual(paths, ["Default", "Default/Cookies", "Preferences"])
        self.assertEqual([each.kind for each in profile.entries("Default")], ["file"])
        self.assertEqual((profile.read("Preferences"), profile.read("Preferences", at="latest~1")), (b"second", b"first"))
        self.assertEqual(profile.tag("good", at="latest~1").tags, ["good"])
        self.assertEqual(profile.list()[0].tags, ["good"])
        self.assertEqual(profile.rollback("good", confirm=False).outcome, "planned")
        moved = profile.rollback("good", reason="logged out")
        self.assertEqual((moved.outcome, moved.active_sha256_prefix), ("rolled_back", first.sha256_prefix))
        self.assertEqual(profile.untag("good").tags, [])
        self.assertEqual(profile.delete(second.sha256_prefix)["outcome"], "deleted")
        self.assertEqual(len(profile.list()), 1)

    def test_an_error_says_what_to_do(self: Scene) -> None:
        self.profile().snapshot(self.udd)
        for ask in (lambda: self.profile().show("nope"), lambda: self.profile().restore(self.folder / "o", at="nope")):
            with self.assertRaises(pstore.NotFound) as caught:
                ask()
            error = caught.exception
            self.assertEqual((error.kind, error.exit_code), ("not_found", 3))
            self.assertIn("nope", error.message)
            self.assertIsNotNone(error.hint)
        with self.assertRaises(pstore.NotFound):
            self.profile().read("nope")
        with self.assertRaises(pstore.InvalidInput):
            self.profile("acme")
        with self.assertRaises(pstore.InvalidInput):
            self.profile("ac:me/alice").list()

    def test_a_mount_is_committed_at_the_end_of_its_block(self: Scene) -> None:
        with self.profile().mount() as udd:
            self.assertIsNone(udd.sha256_prefix)
            (udd / "Preferences").write_text("by a run")
        assert udd.snapshot is not None
        self.assertTrue(udd.snapshot.is_new)
        self.assertFalse(Path(udd.path).exists())
        with self.profile().mount() as udd:
            self.assertEqual(udd.sha256_prefix, self.profile().list()[0].sha256_prefix)
            (udd / "Preferences").write_text("halfway")
            halfway = udd.commit()
            (udd / "Preferences").write_text("end")
        self.assertEqual(self.profile().read("Preferences", at=halfway.sha256_prefix), b"halfway")
        self.assertEqual(self.profile().read("Preferences"), b"end")
        self.assertEqual(len(self.profile().list()), 3)
        self.assert_nothing_is_left()

    def test_an_exception_leaves_the_current_snapshot_and_the_next_run_starts_with_it(self: Scene) -> None:
        self.profile().snapshot(self.udd)
        with self.assertRaisesRegex(ValueError, "the agent failed"):
            with self.profile().mount() as udd:
                (udd / "Preferences").write_text("half done")
                raise ValueError("the agent failed")
        self.assert_nothing_is_left()
        self.assertEqual(self.profile().read("Preferences"), b"first")
        with self.profile().mount() as udd:
            self.assertFalse(udd.resumed)
            self.assertEqual((udd / "Preferences").read_text(), "first")
        # And the work is not lost.
        [session] = self.host.ask("sessions")["sessions"]
        self.assertEqual(session["state"], "set_aside")
        self.host.ask("sessions", "rescue", session["session"], "--as", "acme/rescued")
        self.assertEqual(self.profile("acme/rescued").read("Preferences"), b"half done")

    def test_what_an_exception_does_to_changes_can_be_chosen(self: Scene) -> None:
        self.profile().snapshot(self.udd)
        expected = {"discard": ("first", 0), "keep": ("kept", 1), "commit": ("commit", 0)}
        for on_error, (now, sessions) in expected.items():
            with self.assertRaises(KeyboardInterrupt):
                with self.profile().mount(on_error=on_error) as udd:
                    (udd / "Preferences").write_text(now)
                    raise KeyboardInterrupt
            self.assertEqual(len(self.host.ask("sessions")["sessions"]), sessions, on_error)
            if on_error == "keep":
                with self.profile().mount() as udd:
                    self.assertTrue(udd.resumed)
                    self.assertEqual((udd / "Preferences").read_text(), "kept")
            self.assertEqual(self.profile().read("Preferences").decode(), now)
        with self.assertRaises(pstore.InvalidInput):
            self.profile().mount(on_error="explode")
        self.assert_nothing_is_left()

    def test_a_fork_and_a_reader_change_nothing(self: Scene) -> None:
        self.profile().snapshot(self.udd)
        with self.profile().mount() as holder, self.profile().fork() as fork, self.profile().mount(read_only=True) as old:
            (fork / "Preferences").write_text("a try")
            with self.assertRaises(OSError):
                (old / "Preferences").write_text("no")
            self.assertEqual((holder / "Preferences").read_text(), "first")
        self.assertEqual(len(self.profile().list()), 1)
        self.assertEqual(self.host.ask("sessions")["sessions"], [])
        self.assert_nothing_is_left()

    def test_one_at_a_time(self: Scene) -> None:
        profile = self.profile()
        with profile.lock(run_id="run-1", ttl=5) as lock:
            self.assertEqual((profile.lock_state().state, profile.lock_state().holder_run_id), ("held", "run-1"))
            for take in (profile.lock, profile.mount):
                with self.assertRaises(pstore.LockHeld) as caught:
                    take()
                error = caught.exception
                self.assertEqual((error.kind, error.exit_code, error.holder_run_id), ("lock_held", 24, "run-1"))
                self.assertLessEqual(error.remaining_ms or 99_000, 5_000)
            # The holder stores; it renews its lock meanwhile.
            self.assertTrue(profile.snapshot(self.udd, lock_token=lock.token).is_new)
            while lock.document.get("renewal_count", 0) == 0:
                lock.check()
            self.assertTrue(lock.is_held)
        self.assertEqual(profile.lock_state().state, "free")
        with profile.lock() as lock:
            self.host.ask("force-unlock", "acme/alice", "--reason", "a test", "--confirm")
            with self.assertRaises(pstore.LockLost):
                self.door.renew(profile._name, lock.token)

    def test_a_run_is_captured(self: Scene) -> None:
        profile = self.profile()
        said = self.folder / "said"
        with said.open("wb") as output:
            words = ["sh", "-c", "echo hello; echo by a command > {profile}/Preferences; env; exit 3"]
            run = profile.run(words, output=output)
        self.assertEqual((run.command_exit_code, run.snapshot_failed), (3, False))
        assert run.snapshot is not None
        self.assertEqual(profile.read("Preferences"), b"by a command\n")
        self.assertIn("hello", said.read_text())
        self.assertIn("PSTORE_PROFILE=", said.read_text())
        self.assertNotIn("PSTORE_STORE=", said.read_text())
        self.assertEqual(profile.run(["true", "{profile}"]).load, "success")
        self.assert_nothing_is_left()

    def test_events_come_in_order_and_as_they_happen(self: Scene) -> None:
        profile = self.profile()
        first = profile.snapshot(self.udd)
        (self.udd / "Preferences").write_text("second")
        profile.snapshot(self.udd)
        cancel = pstore.Cancellation()
        seen = profile.events(follow=True, cancel=cancel)
        told = [next(seen)]
        while told[-1].from_sha256_prefix != first.sha256_prefix:
            told.append(next(seen))
        profile.rollback("latest~1", reason="as it happens")
        while told[-1].kind != "rollback":
            told.append(next(seen))
        self.assertEqual(told[-1].reason, "as it happens")
        flips = [each for each in told if each.kind in ("flip", "import")]
        self.assertEqual(flips[0].to_sha256_prefix, first.sha256_prefix)
        after = [each.event_id for each in profile.events(after=told[0].event_id)]
        self.assertEqual(after, [each.event_id for each in told[1:]])
        cancel.cancel()
        with self.assertRaises(pstore.Cancelled):
            next(seen)

    def test_progress_is_told_and_an_exception_in_it_ends_the_work(self: Scene) -> None:
        profile = self.profile()
        told: "list[pstore.Progress]" = []
        profile.snapshot(self.udd, progress=told.append)
        self.assertTrue(told)
        self.assertTrue(all(0 <= (each.fraction or 0) <= 1 for each in told))
        self.assertGreaterEqual(max(each.bytes for each in told), 300_000)
        told.clear()
        profile.restore(self.folder / "out", progress=told.append)
        self.assertGreaterEqual(max(each.bytes for each in told), 300_000)

        def stop(_: pstore.Progress) -> None:
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            profile.restore(self.folder / "none", progress=stop)
        self.assertFalse((self.folder / "none").exists())
        with self.assertRaisesRegex(RuntimeError, "enough"):
            self.profile("acme/bob").snapshot(self.udd, progress=stop)
        self.assertEqual(self.door.profiles("acme"), ["alice"])

    def test_whoever_waits_can_be_called_back(self: Scene) -> None:
        profile = self.profile()
        profile.snapshot(self.udd)
        with profile.lock(run_id="first"):
            for wait in (profile.lock, profile.mount):
                cancel = pstore.Cancellation()
                threading.Timer(0.5, cancel.cancel).start()
                with self.assertRaises(pstore.Cancelled) as caught:
                    wait(wait=300, cancel=cancel)
                self.assertEqual((caught.exception.kind, caught.exception.exit_code), ("interrupted", 130))
            self.assertEqual(profile.lock_state().holder_run_id, "first")
        self.assert_nothing_is_left()
        with self.assertRaises(pstore.Cancelled):
            profile.snapshot(self.udd, cancel=cancel)


class ThroughTheProgram(AnyDoor, Scene):
    def test_a_fork_is_committed_to_another_profile(self) -> None:
        self.profile().snapshot(self.udd)
        with self.profile().fork() as fork:
            (fork / "Preferences").write_text("a fork")
            fork.commit(to="acme/bob")
        self.assertEqual(self.profile("acme/bob").read("Preferences"), b"a fork")
        self.assertEqual(self.profile().read("Preferences"), b"first")

    def test_a_capture_has_labels_and_a_reason(self) -> None:
        capture = pstore.Capture(labels={"task": "checkout"}, notes="- a note", reason="autosave")
        self.profile().snapshot(self.udd, capture=capture)
        [listed] = self.profile().list()
        self.assertEqual((listed.labels, listed.notes, listed.reason), ({"task": "checkout"}, "- a note", "autosave"))

    def test_a_chosen_directory_is_mounted_and_stays(self) -> None:
        with self.profile().mount(self.folder / "here") as udd:
            self.assertEqual(udd.path, str(self.folder / "here"))
            self.assertTrue(os.path.ismount(udd))
        self.assertEqual(list((self.folder / "here").iterdir()), [])

    def test_without_a_program_the_error_says_how_to_get_one(self) -> None:
        with self.assertRaises(pstore.ProgramMissing) as caught:
            pstore.Host(program=str(self.folder / "none")).version()
        self.assertIn("program=", caught.exception.hint or "")

    def test_the_version_is_that_of_the_package(self) -> None:
        self.assertTrue(self.host.version().startswith(f"pstore {pstore.__version__} "))


class ThroughAServer(AnyDoor, Scene):
    def make_door(self) -> pstore.Door:
        return self.serve()

    def test_a_load_says_why_it_is_empty(self) -> None:
        self.profile().snapshot(self.udd)
        loaded = self.profile().restore(self.folder / "loaded", load=True)
        self.assertEqual((loaded.outcome, (self.folder / "loaded" / "Preferences").read_text()), ("success", "first"))
        other = self.profile(chrome_major=99).restore(self.folder / "empty", load=True)
        self.assertEqual((other.outcome, list((self.folder / "empty").iterdir())), ("version_mismatch", []))
        self.assertIsNotNone(other.reason)

    def test_a_server_that_is_not_there_or_knows_nobody(self) -> None:
        with self.assertRaises(pstore.Unavailable):
            pstore.profile("acme/alice", through=pstore.Server("http://127.0.0.1:1")).list()
        with self.assertRaises(pstore.InvalidInput):
            pstore.Server("ftp://here")
        assert isinstance(self.door, pstore.Server)
        stranger = pstore.Server(self.door._connection.url, token="nobody")
        with self.assertRaises(pstore.Denied):
            pstore.profile("acme/alice", through=stranger).list()

    def test_what_a_server_does_not_offer_is_refused(self) -> None:
        self.profile().snapshot(self.udd)
        with self.assertRaises(pstore.PstoreError) as caught:
            self.profile().mount(self.folder / "here")
        self.assertEqual(caught.exception.kind, "not_implemented")


if __name__ == "__main__":
    unittest.main()

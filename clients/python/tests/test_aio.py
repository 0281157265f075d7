"""Profiles in asyncio: nothing blocks the loop, and a cancelled task leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import threading
import unittest
from typing import Any, Awaitable, Callable
from unittest import mock

import pstore
import pstore.aio
from scene import CHROME, Scene


class InALoop(Scene):
    def profile_of(self, name: str = "acme/alice") -> pstore.aio.Profile:
        return pstore.aio.profile(name, chrome_major=CHROME, through=self.door)

    def run_async(self, work: Callable[[], Awaitable[Any]]) -> None:
        async def whole() -> None:
            await work()

        asyncio.run(whole())

    def test_a_mount_is_committed_at_the_end_of_its_block(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            async with profile.mount() as udd:
                (udd / "Preferences").write_text("by a task")
            assert udd.snapshot is not None
            self.assertEqual(await profile.read("Preferences"), b"by a task")
            with self.assertRaises(ValueError):
                async with profile.mount() as udd:
                    (udd / "Preferences").write_text("half done")
                    raise ValueError
            udd = await profile.mount()
            self.assertEqual((udd / "Preferences").read_text(), "by a task")
            await udd.unmount()
            async with profile.fork() as fork:
                (fork / "Preferences").write_text("a try")
            self.assertEqual(len(await profile.list()), 1)

        self.run_async(work)
        self.assert_nothing_is_left()

    def test_everything_has_its_counterpart(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            told: "list[pstore.Progress]" = []
            first = await profile.snapshot(self.udd, progress=told.append)
            self.assertTrue(told)
            (self.udd / "Preferences").write_text("second")
            second = await profile.snapshot(self.udd)
            current = await profile.current()
            assert current is not None
            self.assertEqual(current.sha256_prefix, second.sha256_prefix)
            self.assertEqual((await profile.diff("latest~1")).changed, 1)
            self.assertEqual((await profile.tag("good", at="latest~1")).tags, ["good"])
            self.assertEqual((await profile.rollback("good")).active_sha256_prefix, first.sha256_prefix)
            self.assertEqual((await profile.untag("good")).tags, [])
            self.assertEqual((await profile.show())["record"], first.record)
            self.assertEqual(len(await profile.history()), 1)
            self.assertEqual(len(await profile.entries()), 2)
            self.assertEqual((await profile.delete(second.sha256_prefix))["outcome"], "deleted")
            self.assertEqual((await profile.restore(self.folder / "out")).outcome, "restored")
            self.assertEqual((await profile.run(["true", "{profile}"])).command_exit_code, 0)
            async with profile.lock(run_id="task") as lock:
                self.assertTrue(lock.is_held and lock.token)
                self.assertEqual((await profile.lock_state()).holder_run_id, "task")
            kinds = [event.kind async for event in profile.events()]
            self.assertIn("rollback", kinds)

        self.run_async(work)
        own = {name for name in vars(pstore.aio.Profile) if not name.startswith("_")}
        self.assertEqual(own, {name for name in vars(pstore.Profile) if not name.startswith("_")} - {"chrome_major"})

    def test_every_call_takes_what_its_counterpart_takes(self) -> None:
        pairs = [
            (pstore.aio.Profile, pstore.Profile), (pstore.aio.Mount, pstore.Mount),
            (pstore.aio.Lock, pstore.Lock), (pstore.aio.Workspace, pstore.Workspace),
        ]
        for own, other in pairs:
            for name, method in vars(own).items():
                if name.startswith("_") or not inspect.isfunction(method):
                    continue
                # A task is cancelled by its loop.
                wanted = [each for each in inspect.signature(getattr(other, name)).parameters if each != "cancel"]
                self.assertEqual(list(inspect.signature(method).parameters), wanted, f"{own.__name__}.{name}")

    def test_progress_is_told_in_the_loop(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            threads: "list[int]" = []

            def tell(_: pstore.Progress) -> None:
                threads.append(threading.get_ident())

            await profile.snapshot(self.udd, progress=tell)
            self.assertEqual(set(threads), {threading.get_ident()})

        self.run_async(work)

    def test_what_was_ready_before_its_task_was_cancelled_is_given_back(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            await profile.snapshot(self.udd)
            for begin in (profile.mount, profile.fork, profile.lock):
                made = threading.Event()
                inner = profile._profile
                real = getattr(inner, begin.__name__)

                def told(*arguments: Any, **named: Any) -> Any:
                    try:
                        return real(*arguments, **named)
                    finally:
                        made.set()

                with mock.patch.object(inner, begin.__name__, told):
                    task = asyncio.ensure_future(self.ask_for(begin))
                    await asyncio.sleep(0)
                    # The loop stands still until it is made, so that the task does not know yet.
                    self.assertTrue(made.wait(60))
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                self.assert_nothing_is_left()

        self.run_async(work)

    async def ask_for(self, begin: Any) -> None:
        await begin()

    def test_the_loop_goes_on_while_a_task_waits(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            turns = 0
            async with profile.lock():
                waiting = asyncio.ensure_future(self.take(profile))
                while turns < 100:
                    await asyncio.sleep(0.005)
                    turns += 1
                self.assertFalse(waiting.done())
            await waiting

        self.run_async(work)

    async def take(self, profile: pstore.aio.Profile) -> None:
        async with profile.lock(wait=60):
            pass

    def test_a_cancelled_task_leaves_no_lock_and_no_mount(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            async with profile.lock(run_id="first"):
                for begin in (profile.lock, profile.mount):
                    task = asyncio.ensure_future(self.wait_for(begin))
                    await asyncio.sleep(0.5)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
            # Whenever the cancellation comes, before it is mounted or after.
            for delay in (0.0, 0.05, 0.1, 0.2, 0.4):
                task = asyncio.ensure_future(self.hold(profile))
                await asyncio.sleep(delay)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assert_nothing_is_left()

        self.run_async(work)

    async def wait_for(self, begin: Any) -> None:
        await begin(wait=300)

    async def hold(self, profile: pstore.aio.Profile) -> None:
        async with profile.mount():
            await asyncio.sleep(300)

    def test_a_follower_of_events_can_be_cancelled(self) -> None:
        async def work() -> None:
            profile = self.profile_of()
            await profile.snapshot(self.udd)
            seen: "list[str]" = []

            async def follow() -> None:
                async for event in profile.events(follow=True):
                    seen.append(event.kind)

            task = asyncio.ensure_future(follow())
            while not seen:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.run_async(work)


class InALoopThroughAServer(InALoop):
    def make_door(self) -> pstore.Door:
        return self.serve()


if __name__ == "__main__":
    unittest.main()

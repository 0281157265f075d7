"""Checkpoints of a workspace: the same through the program and through a server that offers it."""

from __future__ import annotations

import asyncio
import inspect
import unittest
from pathlib import Path
from typing import List

import pstore
import pstore.aio
from scene import Scene

NAME = "acme/agent-7"


class AnyDoor:
    """What holds through every door. `self.place` names the workspace there, and `self.local` is the same one on its host."""

    project: Path
    place: str

    def open(self: Scene) -> pstore.Workspace:
        return pstore.workspace(self.place, through=self.door)  # type: ignore[attr-defined]

    def test_what_an_agent_breaks_is_given_back(self: Scene) -> None:
        workspace, project = self.open(), self.project  # type: ignore[attr-defined]
        taken = workspace.checkpoint("before-refactor", description="tests pass")
        assert taken.checkpoint is not None
        self.assertEqual((taken.outcome, taken.checkpoint.name), ("created", "before-refactor"))
        (project / "main.py").write_text("broken")
        (project / "new").write_text("new")
        (project / "src" / "lib.py").unlink()
        changes = workspace.changes(since="before-refactor")
        self.assertEqual(
            [(each.change, each.path) for each in changes.changes if each.change != "metadata"],
            [("modified", "main.py"), ("created", "new"), ("deleted", "src/lib.py")],
        )
        self.assertEqual((changes.created, changes.modified, changes.deleted), (1, 1, 1))
        self.assertEqual(changes.since.description, "tests pass")
        self.assertEqual([each.path for each in workspace.changes("src").changes if each.change == "deleted"], ["src/lib.py"])
        preview = workspace.revert(everything=True, to="before-refactor", preview=True)
        self.assertFalse(preview.reverted)
        self.assertEqual((project / "main.py").read_text(), "broken")
        done = workspace.revert(everything=True, to="before-refactor")
        self.assertTrue(done.reverted and (done.restored, done.removed) == (preview.restored, preview.removed))
        self.assertIn(("removed", "new"), [(each.action, each.path) for each in done.paths])
        self.assertEqual(((project / "main.py").read_text(), (project / "new").exists()), ("first", False))
        # A revert can be reverted.
        assert done.undo is not None
        workspace.revert("main.py", to=done.undo.checkpoint)
        self.assertEqual((project / "main.py").read_text(), "broken")
        states = [version.state for version in workspace.history("main.py").versions]
        self.assertEqual((states[0], states[-1]), ("modified", "created"))
        self.assertIsNone(workspace.history("main.py").versions[0].checkpoint)

    def test_checkpoints_are_listed_and_deleted(self: Scene) -> None:
        workspace, project = self.open(), self.project  # type: ignore[attr-defined]
        for number in range(3):
            (project / "main.py").write_text(str(number))
            workspace.checkpoint(f"step-{number}")
        listed = workspace.checkpoints()
        self.assertEqual([each.name for each in listed if each.origin == "manual"], ["step-2", "step-1", "step-0"])
        self.assertEqual({each.files_count for each in listed}, {2})
        self.assertEqual(workspace.delete("step-1").deleted.name, "step-1")
        with self.assertRaises(pstore.NotFound) as caught:
            workspace.delete("step-1")
        self.assertEqual((caught.exception.kind, caught.exception.exit_code), ("not_found", 3))
        self.assertIsNotNone(caught.exception.hint)

    def test_a_long_list_of_changes_comes_whole(self: Scene) -> None:
        workspace, project = self.open(), self.project  # type: ignore[attr-defined]
        for number in range(1100):
            (project / f"file-{number:04}").write_text("x")
        created = [each.path for each in workspace.changes().changes if each.change == "created"]
        self.assertEqual((len(created), created[0], created[-1]), (1100, "file-0000", "file-1099"))

    def test_what_is_wrong_is_said_before_anything_is_done(self: Scene) -> None:
        workspace = self.open()  # type: ignore[attr-defined]
        for wrong in (
            lambda: workspace.revert(),
            lambda: workspace.revert("main.py", everything=True),
            lambda: workspace.checkpoint(trigger="sometimes"),
            lambda: workspace.checkpoint("name", trigger="run_end"),
        ):
            with self.assertRaises(pstore.InvalidInput):
                wrong()
        with self.assertRaises(pstore.PstoreError):
            workspace.revert("../outside")

    def test_a_fork_is_a_workspace_of_its_own(self: Scene) -> None:
        workspace, project = self.open(), self.project  # type: ignore[attr-defined]
        workspace.checkpoint("base")
        (project / "main.py").write_text("second")
        fork = workspace.fork(self.fork_target, at="base")  # type: ignore[attr-defined]
        [directory] = [path for path in project.parent.iterdir() if path != project]
        self.assertEqual((directory / "main.py").read_text(), "first")
        (directory / "main.py").write_text("a try")
        self.assertEqual([each.path for each in fork.changes().changes], ["main.py"])
        self.assertEqual((project / "main.py").read_text(), "second")

    def test_asyncio_has_the_same(self: Scene) -> None:
        place, door, project = self.place, self.door, self.project  # type: ignore[attr-defined]

        async def work() -> None:
            workspace = pstore.aio.workspace(place, through=door)
            await workspace.checkpoint("base")
            (project / "main.py").write_text("second")
            self.assertEqual((await workspace.changes()).modified, 1)
            await workspace.revert("main.py", to="base")
            self.assertEqual((project / "main.py").read_text(), "first")
            self.assertEqual((await workspace.delete("base")).deleted.name, "base")
            self.assertTrue(await workspace.checkpoints())
            self.assertTrue((await workspace.history("main.py")).versions)

        asyncio.run(work())


class Working(Scene):
    """A workspace that nothing watches: each checkpoint is asked for."""

    def setUp(self) -> None:
        super().setUp()
        self.project = self.folder / "workspaces" / "project"
        (self.project / "src").mkdir(parents=True)
        (self.project / "main.py").write_text("first")
        (self.project / "src" / "lib.py").write_text("lib")
        self.local = pstore.workspace(self.project, NAME, through=self.host)
        self.local.start(watch=False)
        self.place = str(self.project)
        self.fork_target = str(self.project.parent / "project-try")


class ThroughTheProgram(AnyDoor, Working):
    def test_a_watched_workspace_takes_checkpoints_by_itself(self) -> None:
        with self.local as workspace:
            self.assertEqual(workspace.status().state, "watched")
            (self.project / "main.py").write_text("second")
        # The watcher has taken a last one.
        newest = workspace.checkpoints()[0]
        self.assertEqual((workspace.status().state, newest.origin), ("stopped", "auto"))
        self.assertEqual([each.path for each in workspace.changes().changes], [])
        events = list(workspace.events())
        self.assertEqual({(each.action, each.path) for each in events}, {("modified", "main.py")})
        self.assertEqual(list(workspace.events(after=events[-1].id)), [])

    def test_a_run_of_an_agent_is_surrounded_by_checkpoints(self) -> None:
        with self.assertRaises(ValueError):
            with self.local.run("run-42", "fix the tests") as workspace:
                (self.project / "main.py").write_text("half done")
                raise ValueError
        before = workspace.checkpoints()[-1]
        self.assertEqual(before.trigger, "run_start")
        workspace.revert(everything=True, to=before.checkpoint)
        self.assertEqual((self.project / "main.py").read_text(), "first")

    def test_a_directory_that_is_no_workspace_says_how_to_make_it_one(self) -> None:
        with self.assertRaises(pstore.NotFound) as caught:
            pstore.workspace(self.folder, through=self.host).checkpoint()
        self.assertIn("pstore workspace start", caught.exception.hint or "")

    def test_asyncio_has_every_method(self) -> None:
        def public(of: type) -> "set[str]":
            return {name for name in vars(of) if not name.startswith("_")}

        self.assertEqual(public(pstore.aio.Workspace), public(pstore.Workspace))
        for name in public(pstore.Workspace) - {"place"}:
            ours = list(inspect.signature(getattr(pstore.Workspace, name)).parameters)
            self.assertEqual(list(inspect.signature(getattr(pstore.aio.Workspace, name)).parameters), ours, name)

    def test_a_block_in_asyncio_is_watched_and_surrounded(self) -> None:
        seen: List[str] = []

        async def work() -> None:
            async with pstore.aio.workspace(self.project, through=self.host) as workspace:
                seen.append((await workspace.status()).state)
                async with workspace.run("run-1"):
                    (self.project / "main.py").write_text("second")
            seen.append((await workspace.status()).state)
            seen.extend([event.path async for event in workspace.events()])

        asyncio.run(work())
        self.assertEqual((seen[:2], set(seen[2:])), (["watched", "stopped"], {"main.py"}))


class ThroughAServer(AnyDoor, Working):
    def setUp(self) -> None:
        super().setUp()
        self.door = self.serve(workspaces=self.project.parent)
        self.place = NAME
        self.fork_target = "try"

    def test_what_is_done_on_the_host_alone_is_refused_with_a_way(self) -> None:
        workspace = pstore.workspace(NAME, through=self.door)
        for refused in (
            lambda: workspace.start("acme/other"),
            lambda: workspace.stop(),
            lambda: workspace.status(),
            lambda: workspace.checkpoint(trigger="run_start"),
            lambda: list(workspace.events()),
            lambda: workspace.fork("other", profile="acme/other"),
        ):
            with self.assertRaises(pstore.PstoreError) as caught:
                refused()
            self.assertEqual(caught.exception.kind, "not_implemented")
            self.assertTrue(caught.exception.hint)

    def test_a_workspace_that_is_not_offered_is_none(self) -> None:
        with self.assertRaises(pstore.NotFound):
            pstore.workspace("acme/other", through=self.door).checkpoints()


if __name__ == "__main__":
    unittest.main()

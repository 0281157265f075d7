"""What the package promises without a store: types, Python 3.9, errors that can be sent elsewhere, and documents that match."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
import unittest
from pathlib import Path

import pstore
from pstore import checkpoints, documents, errors
from pstore.archive import ZstdWriter

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "clients" / "python" / "pstore"


class ThePackage(unittest.TestCase):
    def test_it_is_python_3_9_and_needs_nothing_else(self) -> None:
        own = sys.stdlib_module_names | {"pstore", "__future__"}
        for path in PACKAGE.glob("*.py"):
            tree = ast.parse(path.read_text(), feature_version=(3, 9))
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    names = [each.name for each in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                else:
                    continue
                self.assertLessEqual({name.split(".")[0] for name in names}, own, path)

    def test_its_types_hold(self) -> None:
        self.assertTrue((PACKAGE / "py.typed").exists())
        # With the rules of Python 3.9, whatever runs it.
        line = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir", os.devnull, "pstore"]
        ended = subprocess.run(line, cwd=PACKAGE.parent, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_an_error_can_be_sent_to_another_process(self) -> None:
        document = {"error": {"kind": "lock_held", "message": "held", "hint": None, "exit_code": 24, "holder_run_id": "r"}}
        error = pickle.loads(pickle.dumps(errors.from_document(document)))
        self.assertIsInstance(error, pstore.LockHeld)
        self.assertEqual((error.exit_code, error.holder_run_id, str(error)), (24, "r", "held"))

    def test_every_kind_of_an_error_class_is_documented(self) -> None:
        page = (ROOT / "docs" / "exit-codes.md").read_text()
        for kind in errors._CLASSES:
            self.assertIn(f"`{kind}`", page)
        told = {kind: int(code) for code, kind in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)}
        self.assertEqual(errors.CODES, told)

    def test_the_documents_have_the_fields_that_are_typed(self) -> None:
        examples = ROOT / "cli" / "tests" / "cli" / "documents"
        typed = {
            "snapshot.first": documents.Snapshot, "show": documents.Record, "restore.loaded": documents.Restored,
            "diff": documents.Diff, "rollback.done": documents.Rollback, "tag.tagged": documents.Tagged,
            "lock-show.held": documents.LockState, "unmount": documents.Unmounted, "run": documents.Run,
            "workspace-start": checkpoints.WorkspaceState, "checkpoint": checkpoints.TakenCheckpoint,
            "workspace-changes": checkpoints.Changes, "workspace-revert": checkpoints.Revert,
            "workspace-history": checkpoints.PathHistory, "workspace-delete": checkpoints.DeletedCheckpoint,
        }
        inner = {("list.snapshots", "snapshots"): documents.ListedSnapshot, ("log", "events"): documents.Event,
                 ("ls", "entries"): documents.Entry, ("diff", "changes"): documents.Change,
                 ("workspace-list", "checkpoints"): checkpoints.Checkpoint,
                 ("workspace-changes", "changes"): checkpoints.WorkspaceChange,
                 ("workspace-revert", "paths"): checkpoints.RevertedPath,
                 ("workspace-history", "versions"): checkpoints.PathVersion,
                 ("workspace-events", "events"): checkpoints.FileEvent}
        seen = {name: json.loads((examples / f"{name}.json").read_text()) for name in [*typed, *(n for n, _ in inner)]}
        pairs = [(kind, seen[name]) for name, kind in typed.items()]
        pairs += [(kind, seen[name][field][0]) for (name, field), kind in inner.items()]
        for kind, document in pairs:
            wanted = set(kind.__dataclass_fields__) - {"document"}
            self.assertLessEqual(wanted, set(document), kind)

    def test_its_version_is_that_of_the_program(self) -> None:
        self.assertIn(f'\nversion = "{pstore.__version__}"\n', (ROOT / "Cargo.toml").read_text())

    def test_its_zstd_is_what_others_read(self) -> None:
        import io

        import zstandard

        for size in (0, 1, 128 << 10, (128 << 10) + 1, 1_000_000):
            data, file = os.urandom(size), io.BytesIO()
            writer = ZstdWriter(file)
            for at in range(0, size, 50_000):
                writer.write(data[at : at + 50_000])
            writer.finish()
            read = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(file.getvalue())).read()
            self.assertEqual((read, writer.size), (data, len(file.getvalue())))


if __name__ == "__main__":
    unittest.main()

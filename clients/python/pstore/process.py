"""`process` runs the program `pstore`, once for each call."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence

from .door import Json, Watch
from .errors import PstoreError, ProgramMissing, cancelled, from_document
from .progress import Progress

LOG = logging.getLogger("pstore")


def find_program(program: Optional[str]) -> str:
    """The path of the program: as given, else the one that was installed with this package, else the first in `PATH`."""
    if program is not None:
        return program
    beside = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for path in [os.pathsep.join(beside), None]:
        found = shutil.which("pstore", path=path)
        if found is not None:
            return found
    raise ProgramMissing(
        "there is no program `pstore`",
        kind="not_found",
        exit_code=3,
        hint="install the wheel or the Debian package of pstore, or name the program: pstore.Host(program=…)",
    )


class Program:
    """The program, with the options and the environment of each call."""

    def __init__(self, path: str, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self.path = path
        self._options = list(options)
        self._environment = dict(environment)

    def ask(
        self,
        arguments: Sequence[str],
        watch: Watch = Watch(),
        *,
        output: Optional[IO[bytes]] = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> Json:
        """Runs a command and returns its document. With `output`, all that is said beside it goes there."""
        stdout, code, said = self._run(arguments, watch, ["--json"], output, environment)
        document = _document(stdout)
        if document is None:
            raise _failure(code, said, watch)
        error = document.get("error")
        if error is not None:
            raise from_document(document)
        return document

    def read(self, arguments: Sequence[str]) -> bytes:
        """Runs a command that has no document, and returns what it prints."""
        stdout, code, said = self._run(arguments, Watch(), [], None, None)
        if code != 0:
            # Asked again for the error alone: what it has printed so far is no document.
            raise _failure(code, said, Watch())
        return stdout

    def _run(
        self,
        arguments: Sequence[str],
        watch: Watch,
        options: Sequence[str],
        output: Optional[IO[bytes]],
        environment: Optional[Mapping[str, str]],
    ) -> "tuple[bytes, int, List[str]]":
        watch.check()
        options = [*self._options, *options]
        if watch.progress is not None:
            options = [*options, "--progress", "json"]
        variables: Dict[str, str] = {**os.environ, **self._environment, **(environment or {})}
        try:
            process = subprocess.Popen(
                [self.path, *options, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if output is None else output,
                env=variables,
            )
        except OSError as error:
            raise ProgramMissing(
                f"cannot run {self.path}: {error}",
                kind="not_found",
                exit_code=3,
                hint="name the program: pstore.Host(program=…)",
            ) from error

        def interrupt() -> None:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)

        if watch.cancel is not None:
            watch.cancel.on_cancel(interrupt)
        try:
            return self._listen(process, watch)
        except BaseException:
            # An interrupt, or an exception of whoever watches: nothing goes on behind the caller's back.
            interrupt()
            process.wait()
            raise
        finally:
            if watch.cancel is not None:
                watch.cancel.forget(interrupt)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    @staticmethod
    def _listen(process: "subprocess.Popen[bytes]", watch: Watch) -> "tuple[bytes, int, List[str]]":
        """Reads both streams until the program has ended."""
        printed: List[bytes] = []
        said: List[str] = []
        stdout = process.stdout
        assert stdout is not None
        reader = threading.Thread(target=lambda: printed.append(stdout.read()), name="pstore-stdout", daemon=True)
        reader.start()
        if process.stderr is not None:
            for raw in process.stderr:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                progress = _progress(line) if watch.progress is not None else None
                if progress is not None and watch.progress is not None:
                    watch.progress(progress)
                elif line:
                    said.append(line)
                    LOG.warning("%s", line) if line.startswith("warning: ") else LOG.debug("%s", line)
        reader.join()
        return b"".join(printed), process.wait(), said


def _progress(line: str) -> Optional[Progress]:
    """The progress that a line tells, if it is no remark."""
    if not line.startswith('{"progress":'):
        return None
    try:
        told = json.loads(line)["progress"]
        return Progress(
            stage=told["stage"],
            files=told["files"],
            total_files=told["total_files"],
            bytes=told["bytes"],
            total_bytes=told["total_bytes"],
        )
    except (ValueError, KeyError, TypeError):
        return None


def _document(stdout: bytes) -> Optional[Mapping[str, Any]]:
    try:
        document = json.loads(stdout)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _failure(code: int, said: List[str], watch: Watch) -> PstoreError:
    """The exception for a program that left no document."""
    if code in (130, -signal.SIGINT) or (watch.cancel is not None and watch.cancel.is_cancelled):
        return cancelled()
    message = next((line[7:] for line in reversed(said) if line.startswith("error: ")), None)
    hint = next((line[6:] for line in reversed(said) if line.startswith("hint: ")), None)
    if message is None:
        what = f"signal {-code} ended pstore" if code < 0 else f"pstore ended with {code}"
        message = f"{what}: {said[-1]}" if said else what
    kinds = {2: "invalid_input", 3: "not_found", 10: "damaged", 13: "denied", 14: "unavailable"}
    fields = {"kind": kinds.get(code, "internal"), "message": message, "hint": hint, "exit_code": max(code, 1)}
    return from_document({"error": fields})

"""`Host` reaches pstore through the program on this host."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from .door import Capture, Door, Json, Name, Watch
from .errors import invalid
from .process import Program, find_program

#: How often a follower of events looks again.
_LOOK_AGAIN_SECONDS = 2.0


class Host(Door):
    """The program `pstore` on this host, and a store.

    Without arguments the program takes its settings from `PSTORE_*` variables and its configuration file, as always.
    """

    def __init__(
        self,
        store: Optional[str] = None,
        *,
        endpoint: Optional[str] = None,
        region: Optional[str] = None,
        config: Union[str, "os.PathLike[str]", None] = None,
        program: Union[str, "os.PathLike[str]", None] = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        options: List[str] = []
        for flag, value in (("--store", store), ("--endpoint", endpoint), ("--region", region), ("--config", config)):
            if value is not None:
                options += [flag, os.fspath(value)]
        found = find_program(None if program is None else os.fspath(program))
        self._program = Program(found, options, environment or {})

    def ask(self, *arguments: str) -> Json:
        """Runs any other command of the program, and returns its document: `host.ask("gc", "acme")`."""
        return self._program.ask(arguments)

    def version(self) -> str:
        """What `pstore --version` says."""
        return self._program.read(["--version"]).decode().strip()

    def snapshot(
        self, name: Name, directory: Path, capture: Capture, lock_token: Optional[str], wait: int, watch: Watch
    ) -> Json:
        line = ["snapshot", *_chrome(name), *_capture(capture), *_wait(wait), "--", str(directory), str(name)]
        # Not in the arguments, which everybody on the host can read.
        secret = {} if lock_token is None else {"PSTORE_LOCK_TOKEN": lock_token}
        return self._program.ask(line, watch, environment=secret)

    def restore(
        self, name: Name, reference: Optional[str], target: Path, replace: bool, load_for_chrome: bool, watch: Watch
    ) -> Json:
        line = ["restore"]
        if load_for_chrome:
            line += [*_chrome(name), "--normalise-exit"]
        if replace:
            line.append("--force")
        return self._program.ask([*line, "--", name.at(reference), str(target)], watch)

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
        line = ["mount", *_chrome(name), *_wait(wait), *options]
        line += {"fork": ["--fork"], "read_only": ["--read-only"]}.get(mode, [])
        own = tempfile.mkdtemp(prefix="pstore-") if mountpoint is None else None
        path = os.path.abspath(own if own is not None else str(mountpoint))
        if own is None:
            os.makedirs(path, exist_ok=True)
        try:
            document = self._program.ask([*line, "--", name.at(reference), path], watch)
        except BaseException:
            _remove(own)
            raise
        return {**document, "own_directory": own}

    def commit(self, mount: Json, other: Optional[Name], force: bool, capture: Capture, watch: Watch) -> Json:
        line = ["commit", *_capture(capture)]
        if other is not None:
            line += ["--as", str(other)] + (["--force"] if force else [])
        return self._program.ask([*line, "--", mount["mountpoint"]], watch)

    def unmount(self, mount: Json, changes: Optional[str], capture: Capture, watch: Watch) -> Json:
        line = ["unmount", *_capture(capture)] + ([] if changes is None else [f"--{changes}"])
        document = self._program.ask([*line, "--", mount["mountpoint"]], watch)
        _remove(mount.get("own_directory"))
        return document

    def set_aside(self, mount: Json) -> Json:
        ended = self.unmount(mount, "keep", Capture(), Watch())
        if ended["kept"]:
            self._program.ask(["sessions", "set-aside", mount["session"]])
        return ended

    def mounts(self) -> List[Json]:
        return _list(self._program.ask(["mounts"]), "mounts")

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
        if str(name).startswith("-"):
            # What follows `--` is the command.
            raise invalid(f"`run` takes no name that begins with a dash: {name}", "mount it, and start the command yourself")
        line = ["run", *_chrome(name), *_capture(capture), *_wait(wait), *options, str(name), "--", *command]
        return self._program.ask(line, Watch(cancel=watch.cancel), output=output)

    def list(self, name: Name) -> List[Json]:
        return _list(self._program.ask(["list", *_chrome(name), "--", str(name)]), "snapshots")

    def profiles(self, tenant: str) -> List[str]:
        listed = _list(self._program.ask(["list", "--", tenant]), "profiles")
        return [each["profile_id"] for each in listed if each.get("deletion") is None]

    def show(self, name: Name, reference: Optional[str]) -> Json:
        return self._program.ask(["show", *_chrome(name), "--", name.at(reference)])

    def history(self, name: Name, reference: Optional[str]) -> Json:
        return self._program.ask(["history", *_chrome(name), "--", name.at(reference)])

    def diff(self, name: Name, before: str, after: str, totals_only: bool) -> Json:
        line = ["diff", *_chrome(name)] + (["--stat"] if totals_only else [])
        return self._program.ask([*line, "--", name.at(before), after])

    def rollback(self, name: Name, reference: str, reason: str, confirm: bool, force: bool) -> Json:
        line = ["rollback", *_chrome(name), f"--reason={reason}"]
        line += (["--confirm"] if confirm else []) + (["--force"] if force else [])
        return self._program.ask([*line, "--", name.at(reference)])

    def tag(self, name: Name, reference: Optional[str], tag: str, is_added: bool) -> Json:
        return self._program.ask(["tag" if is_added else "untag", *_chrome(name), "--", name.at(reference), tag])

    def delete(self, name: Name, reference: str, reason: str, tagged: bool) -> Json:
        line = ["delete", *_chrome(name), f"--reason={reason}"] + (["--tagged"] if tagged else [])
        return self._program.ask([*line, "--", name.at(reference)])

    def entries(self, name: Name, reference: Optional[str], path: str, recursive: bool) -> List[Json]:
        line = ["ls", *_chrome(name)] + (["--recursive"] if recursive else []) + ["--", name.at(reference)]
        return _list(self._program.ask(line + ([path] if path else [])), "entries")

    def read(self, name: Name, reference: Optional[str], path: str) -> bytes:
        return self._program.read(["cat", *_chrome(name), "--", name.at(reference), path])

    def acquire(self, name: Name, run_id: Optional[str], ttl: Optional[int], wait: int, watch: Watch) -> Json:
        line = ["lock", "acquire", *_chrome(name), *_wait(wait)]
        line += ([] if run_id is None else [f"--run-id={run_id}"]) + ([] if ttl is None else [f"--ttl={ttl}"])
        return self._program.ask([*line, "--", str(name)], watch)

    def renew(self, name: Name, token: str) -> Json:
        return self._with_token("renew", name, token)

    def release(self, name: Name, token: str) -> Json:
        return self._with_token("release", name, token)

    def _with_token(self, verb: str, name: Name, token: str) -> Json:
        line = ["lock", verb, *_chrome(name), "--", str(name)]
        return self._program.ask(line, environment={"PSTORE_LOCK_TOKEN": token})

    def lock_state(self, name: Name) -> Json:
        return self._program.ask(["lock", "show", *_chrome(name), "--", str(name)])

    def events(self, name: Name, after: Optional[str], follow: bool, watch: Watch) -> Iterator[Json]:
        seen: Dict[str, None] = {}
        is_skipped = after is not None
        while True:
            document = self._program.ask(["log", *_chrome(name), "--last", "0", "--", str(name)], watch)
            for event in _list(document, "events"):
                event_id = event["event_id"]
                if event_id in seen:
                    continue
                seen[event_id] = None
                if is_skipped:
                    is_skipped = event_id != after
                    continue
                yield event
            if not follow:
                return
            _pause(_LOOK_AGAIN_SECONDS, watch)

    def start_workspace(
        self, place: str, profile: Optional[Name], watch: bool, numbers: Mapping[str, Optional[int]]
    ) -> Json:
        line = ["workspace", "start"] + ([] if watch else ["--no-watch"])
        line += [f"--{name}={number}" for name, number in numbers.items() if number is not None]
        return self._program.ask([*line, "--", place] + ([] if profile is None else [str(profile)]))

    def stop_workspace(self, place: str) -> Json:
        return self._program.ask(["workspace", "stop", "--", place])

    def workspace_state(self, place: str) -> Json:
        return self._program.ask(["workspace", "status", "--", place])

    def take_checkpoint(self, place: str, name: Optional[str], trigger: str, run_id: str, description: str) -> Json:
        line = ["checkpoint", f"--run-id={run_id}", f"--description={description}"]
        line += [] if name is None else [f"--name={name}"]
        line += [] if trigger == "manual" else [f"--trigger={trigger}"]
        return self._program.ask([*line, "--", place])

    def checkpoints(self, place: str) -> List[Json]:
        return _list(self._program.ask(["workspace", "list", "--", place]), "checkpoints")

    def workspace_changes(
        self, place: str, path: str, since: Optional[str], page: Union[int, str, None], limit: int
    ) -> Json:
        line = ["workspace", "changes", f"--limit={limit}", f"--offset={page or 0}"]
        line += [] if since is None else [f"--since={since}"]
        return self._program.ask([*line, "--", place] + ([path] if path else []))

    def revert(self, place: str, path: str, to: Optional[str], preview: bool) -> Json:
        line = ["workspace", "revert"] + (["--preview"] if preview else []) + ([] if path else ["--all"])
        line += [] if to is None else [f"--to={to}"]
        return self._program.ask([*line, "--", place] + ([path] if path else []))

    def path_history(self, place: str, path: str) -> Json:
        return self._program.ask(["workspace", "history", "--", place, path])

    def delete_checkpoint(self, place: str, checkpoint: str) -> Json:
        return self._program.ask(["workspace", "delete", "--", place, checkpoint])

    def fork_workspace(self, place: str, target: str, profile: Optional[Name], at: Optional[str]) -> str:
        line = ["workspace", "fork"] + ([] if at is None else [f"--from={at}"])
        made = self._program.ask([*line, "--", place, target] + ([] if profile is None else [str(profile)]))
        return str(made["directory"])

    def file_events(self, place: str, checkpoint: Optional[str], after: int, limit: int) -> Json:
        line = ["workspace", "events", f"--after={after}", f"--limit={limit}"]
        line += [] if checkpoint is None else [f"--checkpoint={checkpoint}"]
        return self._program.ask([*line, "--", place])


def _pause(seconds: float, watch: Watch) -> None:
    """Waits, and ends early if somebody cancels."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        watch.check()
        time.sleep(0.05)
    watch.check()


def _chrome(name: Name) -> List[str]:
    return [] if name.chrome_major is None else ["--chrome-major", str(name.chrome_major)]


def _wait(seconds: int) -> List[str]:
    return ["--wait", str(seconds)] if seconds else []


def _capture(capture: Capture) -> List[str]:
    line = [f"--label={key}={value}" for key, value in capture.labels.items()]
    if capture.mode != "cold":
        line += ["--mode", capture.mode]
    if capture.reason is not None:
        line += ["--reason", capture.reason]
    if capture.notes:
        line.append(f"--notes={capture.notes}")
    flags = {
        "--no-stop": not capture.stop_browser,
        "--allow-shrink": capture.allow_shrink,
        "--allow-damaged": capture.allow_damaged,
        "--allow-logged-out": capture.allow_logged_out,
    }
    return line + [flag for flag, is_given in flags.items() if is_given]


def _list(document: Json, name: str) -> List[Any]:
    value = document.get(name)
    return list(value) if isinstance(value, list) else []


def _remove(directory: Optional[str]) -> None:
    """Removes a mountpoint that was made for one mount, unless something is in it."""
    if directory is not None:
        try:
            os.rmdir(directory)
        except OSError:
            pass

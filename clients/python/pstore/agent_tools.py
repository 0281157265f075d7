"""`AgentTools` calls the tools that a server offers to agents over MCP (docs/mcp.md), and gives the documents that the program prints."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Union

from .connection import Connection
from .door import Json
from .errors import CODES, PstoreError, from_document

#: A revision that needs no handshake before a call.
_REVISION = "2025-06-18"
_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": _REVISION}
#: `there is no checkpoint "x" (not_found)`, and what to do next.
_FAILURE = re.compile(r"(?P<message>.*) \((?P<kind>[a-z_]+)\)(?:\nNext: (?P<hint>.*))?", re.DOTALL)
#: How many checkpoints and versions a server tells at a time.
_CHECKPOINTS, _VERSIONS = 50, 100


class AgentTools:
    """The tools of a server. A workspace is named by its profile, `acme/agent-7`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, workspace: str, name: Optional[str], description: str) -> Json:
        told = self._call("snapshots_create", workspace, name=name, description=description or None)
        return {**told, "checkpoint": _checkpoint(told), "warning": told.get("warning")}

    def list(self, workspace: str) -> List[Json]:
        found: List[Json] = []
        cursor: Optional[str] = None
        while True:
            told = self._call("snapshots_list", workspace, limit=_CHECKPOINTS, cursor=cursor)
            found += [_checkpoint(each) for each in told["checkpoints"]]
            cursor = told.get("next_cursor")
            if cursor is None:
                return found

    def changes(
        self, workspace: str, path: str, since: Optional[str], page: Union[int, str, None], limit: int
    ) -> Json:
        told = self._call("snapshots_changes", workspace, path=path or None, since=since, cursor=page, limit=limit)
        totals = {name: told[name] for name in ("created", "modified", "deleted", "metadata")}
        return {**told, "since": _checkpoint(told["since"]), "totals": totals, "next_offset": told.get("next_cursor")}

    def revert(self, workspace: str, path: str, to: Optional[str], preview: bool) -> Json:
        which: Dict[str, Any] = {"path": path} if path else {"all": True}
        told = self._call("snapshots_revert", workspace, **which, checkpoint=to, preview=preview, limit=500)
        undo = told.get("undo")
        before = None if undo is None else _checkpoint(undo)
        return {**told, "checkpoint": _checkpoint(told["checkpoint"]), "before": before}

    def history(self, workspace: str, path: str) -> Json:
        versions: List[Json] = []
        cursor: Optional[str] = None
        while True:
            told = self._call("snapshots_history", workspace, path=path, limit=_VERSIONS, cursor=cursor)
            versions += [_version(each) for each in told["versions"]]
            cursor = told.get("next_cursor")
            if cursor is None:
                return {**told, "versions": versions}

    def delete(self, workspace: str, checkpoint: str) -> Json:
        told = self._call("snapshots_delete", workspace, checkpoint=checkpoint)
        return {**told, "deleted": _checkpoint(told["deleted"])}

    def fork(self, workspace: str, name: str, at: Optional[str]) -> str:
        return str(self._call("snapshots_fork", workspace, name=name, checkpoint=at)["workspace"])

    def _call(self, tool: str, workspace: str, **arguments: Any) -> Json:
        """Calls a tool, and returns the document of its answer."""
        given = {name: value for name, value in arguments.items() if value is not None}
        params = {"name": tool, "arguments": {"workspace": workspace, **given}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = self._connection.ask("POST", "/mcp", body=body, headers=_HEADERS)
        error = answer.get("error")
        if error is not None:
            raise PstoreError(f"the server refused {tool}: {error.get('message')}", kind="protocol_error")
        result = answer["result"]
        if result.get("isError"):
            raise _failure("\n".join(part.get("text", "") for part in result["content"]))
        document: Mapping[str, Any] = result["structuredContent"]
        return document


def _checkpoint(told: Mapping[str, Any]) -> Json:
    """A checkpoint with the names that the program has for its fields."""
    unsaid = {"name": None, "description": "", "hash": None}
    return {**unsaid, **told, "files_count": told.get("files")}


def _version(told: Mapping[str, Any]) -> Json:
    is_now = told["checkpoint"] == "now"
    return {"size": None, **told, "checkpoint": None if is_now else _checkpoint(told)}


def _failure(text: str) -> PstoreError:
    found = _FAILURE.fullmatch(text.strip())
    if found is None:
        return PstoreError(text.strip() or "the server did not say why it failed")
    kind = found["kind"]
    fields = {"kind": kind, "message": found["message"], "hint": found["hint"], "exit_code": CODES.get(kind, 1)}
    return from_document({"error": fields})

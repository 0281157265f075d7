"""`errors` turns the errors of pstore into exceptions.

There is one class for each kind that a program usually treats by itself; all others are `PstoreError`. The kinds and codes are those of
docs/exit-codes.md, and a newer pstore may add some.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type


class PstoreError(Exception):
    """pstore could not do what it was asked to do."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "internal",
        exit_code: int = 1,
        hint: Optional[str] = None,
        document: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        #: What went wrong, in words.
        self.message = message
        #: What went wrong, in one word that does not change: `lock_held`.
        self.kind = kind
        #: The exit code of the program for this kind.
        self.exit_code = exit_code
        #: What to do now, if pstore knows.
        self.hint = hint
        #: All that pstore told, with the fields of the error in `error`.
        self.document: Mapping[str, Any] = document or {}

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> Any:
        return (_again, (type(self), self.message, self.kind, self.exit_code, self.hint, dict(self.document)))


class InvalidInput(PstoreError):
    """An argument, a name or a setting is wrong; nothing was tried."""


class NotFound(PstoreError):
    """The tenant, profile, snapshot or directory does not exist."""


class TargetExists(PstoreError):
    """The target is not empty."""


class Damaged(PstoreError):
    """Stored bytes are not what they should be."""


class Denied(PstoreError):
    """The store, or the server, denies access."""


class Unavailable(PstoreError):
    """The store, or the server, cannot be reached."""


class LockHeld(PstoreError):
    """Somebody else holds the lock of the profile."""

    @property
    def holder_run_id(self) -> Optional[str]:
        """The run that holds it."""
        return _text(self._fields().get("holder_run_id"))

    @property
    def holder_host(self) -> Optional[str]:
        """The host of that run."""
        return _text(self._fields().get("holder_host"))

    @property
    def remaining_ms(self) -> Optional[int]:
        """How long it still holds it, unless it renews it."""
        value = self._fields().get("remaining_ms")
        return value if isinstance(value, int) else None

    def _fields(self) -> Mapping[str, Any]:
        error = self.document.get("error", self.document)
        return error if isinstance(error, Mapping) else {}


class LockLost(PstoreError):
    """The lock was held and is no longer; data stored by then stays stored."""


class PointerMoved(PstoreError):
    """Somebody else made another snapshot current meanwhile."""


class HeldBack(PstoreError):
    """The snapshot is stored, but pstore did not make it current."""


class InUse(PstoreError):
    """A browser or another program uses the directory."""


class UncommittedChanges(PstoreError):
    """A mount has changes that are stored nowhere."""


class Cancelled(PstoreError):
    """The work was cancelled; the store is as it was before."""


class ProgramMissing(PstoreError):
    """There is no program `pstore` to run."""


_CLASSES: Dict[str, Type[PstoreError]] = {
    "invalid_input": InvalidInput,
    "not_found": NotFound,
    "target_exists": TargetExists,
    "damaged": Damaged,
    "denied": Denied,
    "unavailable": Unavailable,
    "lock_held": LockHeld,
    "lock_lost": LockLost,
    "pointer_moved": PointerMoved,
    "held_back": HeldBack,
    "in_use": InUse,
    "uncommitted_changes": UncommittedChanges,
    "interrupted": Cancelled,
}

#: The exit code of each kind.
CODES: Dict[str, int] = {
    "internal": 1,
    "invalid_input": 2,
    "not_found": 3,
    "ambiguous": 4,
    "target_exists": 5,
    "io": 6,
    "damaged": 10,
    "unsupported_format": 11,
    "store_refused": 12,
    "denied": 13,
    "unavailable": 14,
    "pointer_not_flipped": 20,
    "pointer_unknown": 21,
    "write_revoked": 22,
    "source_changed": 23,
    "lock_held": 24,
    "lock_lost": 25,
    "pointer_moved": 26,
    "snapshot_needed": 27,
    "conflict": 28,
    "held_back": 29,
    "not_implemented": 30,
    "profile_too_large": 31,
    "in_use": 32,
    "integrity_failed": 33,
    "version_mismatch": 34,
    "quota_exceeded": 35,
    "repaired": 36,
    "uncommitted_changes": 37,
    "session_unreadable": 38,
    "session_behind": 39,
    "tenants_failed": 40,
    "deleted": 41,
    "command_failed": 42,
    "interrupted": 130,
}


def from_document(document: Mapping[str, Any]) -> PstoreError:
    """The exception for a document with `error`, or for a problem of the server."""
    error = document.get("error", document)
    if not isinstance(error, Mapping):
        error = {"message": str(error)}
    kind = str(error.get("kind") or "internal")
    message = error.get("message") or error.get("detail") or error.get("title") or "pstore failed and did not say why"
    code = error.get("exit_code")
    return _CLASSES.get(kind, PstoreError)(
        str(message),
        kind=kind,
        exit_code=code if isinstance(code, int) else 1,
        hint=_text(error.get("hint")),
        document=document,
    )


def cancelled() -> Cancelled:
    """The exception for work that was cancelled."""
    return Cancelled("it was cancelled", kind="interrupted", exit_code=130)


def unavailable(message: str, hint: Optional[str] = None) -> Unavailable:
    """The exception for a server that does not answer."""
    return Unavailable(message, kind="unavailable", exit_code=14, hint=hint)


def invalid(message: str, hint: Optional[str] = None) -> InvalidInput:
    """The exception for an argument that is wrong."""
    return InvalidInput(message, kind="invalid_input", exit_code=2, hint=hint)


def not_offered(message: str, hint: Optional[str] = None) -> PstoreError:
    """The exception for what this way to pstore does not offer."""
    return PstoreError(message, kind="not_implemented", exit_code=30, hint=hint)


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None


def _again(
    of: Type[PstoreError], message: str, kind: str, exit_code: int, hint: Optional[str], document: Dict[str, Any]
) -> PstoreError:
    return of(message, kind=kind, exit_code=exit_code, hint=hint, document=document)

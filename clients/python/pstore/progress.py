"""`progress` says how far work is, and lets another thread end it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Callable, List, Optional

from .errors import cancelled


@dataclass(frozen=True)
class Progress:
    """How far one stage of the work is."""

    #: What is being done: `reading`.
    stage: str
    #: Files that are done, and their number; 0 if it is not known.
    files: int
    total_files: int
    #: Bytes that are done, and their number; 0 if it is not known.
    bytes: int
    total_bytes: int

    @property
    def fraction(self) -> Optional[float]:
        """The share that is done, from 0 to 1; `None` if the end is not known."""
        if self.total_bytes <= 0:
            return None
        return min(1.0, self.bytes / self.total_bytes)


#: Called while work goes on, by the thread that waits for it. An exception in it cancels the work.
OnProgress = Callable[[Progress], None]


class Cancellation:
    """Ends the work it was given to, from any thread. The work then raises `Cancelled`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._actions: List[Callable[[], None]] = []

    def cancel(self) -> None:
        """Ends the work, and all that is begun with this object later."""
        with self._lock:
            self._is_cancelled = True
            actions, self._actions = self._actions, []
        for action in actions:
            action()

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled."""
        return self._is_cancelled

    def check(self) -> None:
        """Raises `Cancelled` if somebody has cancelled."""
        if self._is_cancelled:
            raise cancelled()

    def on_cancel(self, action: Callable[[], None]) -> None:
        """Has `action` called when somebody cancels; at once if that has happened."""
        with self._lock:
            if not self._is_cancelled:
                self._actions.append(action)
                return
        action()

    def forget(self, action: Callable[[], None]) -> None:
        """Takes back `on_cancel`."""
        with self._lock:
            if action in self._actions:
                self._actions.remove(action)

"""`Lock` holds the lock of a profile, and renews it in the background."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Optional, Type

from .door import Door, Json, Name
from .errors import LockLost, PstoreError

LOG = logging.getLogger("pstore")


class Lock:
    """The lock of a profile. As a context manager it is given back at the end, and until then renewed in time.

    Give `token` to `Profile.snapshot(lock_token=…)`. `check()` raises `LockLost` if somebody else may have the lock.
    """

    def __init__(self, door: Door, name: Name, document: Json) -> None:
        self._door = door
        self._name = name
        #: All that pstore told of it.
        self.document = document
        #: Proves that a process acts for the holder.
        self.token: str = document["token"]
        self._lost: Optional[PstoreError] = None
        self._is_released = False
        self._stop = threading.Event()
        lasts = (document["expires_at_ms"] - document["renewed_at_ms"]) / 1000
        self._ends = time.monotonic() + lasts
        self._every = max(1.0, lasts / 5)
        self._lasts = lasts
        self._renewer = threading.Thread(target=self._renew, name=f"pstore-lock {name}", daemon=True)
        self._renewer.start()

    def check(self) -> None:
        """Raises `LockLost` if the lock is not held any more."""
        if self._lost is not None:
            raise self._lost
        if time.monotonic() >= self._ends:
            raise LockLost(
                f"the lock of {self._name} has expired: it could not be renewed", kind="lock_lost", exit_code=25
            )

    @property
    def is_held(self) -> bool:
        """Whether it is held, as far as is known."""
        return not self._is_released and self._lost is None and time.monotonic() < self._ends

    def release(self) -> None:
        """Gives it back."""
        if not self._is_released:
            self._stop.set()
            self._renewer.join()
            self._is_released = True
            self._door.release(self._name, self.token)

    def _renew(self) -> None:
        while not self._stop.wait(self._every):
            began = time.monotonic()
            try:
                renewed = self._door.renew(self._name, self.token)
            except LockLost as error:
                self._lost = error
                LOG.warning("%s", error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it was, the next try may do before the lock ends
                LOG.warning("the lock of %s was not renewed: %s", self._name, error)
                continue
            self.document = renewed
            self.token = renewed["token"]
            self._ends = began + self._lasts

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self.release()
        except PstoreError as problem:
            if error is None:
                raise
            LOG.warning("the lock of %s was not given back: %s", self._name, problem)

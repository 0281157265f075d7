"""`tasks` has threads do what a task waits for, so that the event loop goes on meanwhile.

A task that is cancelled ends its work, and waits until the work has ended. What the work has made all the same is given back.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Callable, Coroutine, Generator, Generic, Optional, Type, TypeVar

from .errors import PstoreError
from .progress import Cancellation, OnProgress, Progress

LOG = logging.getLogger("pstore")

T = TypeVar("T")
M = TypeVar("M", bound="Managed")

#: Threads of our own: those of asyncio are few, and others need them.
_THREADS = ThreadPoolExecutor(max_workers=512, thread_name_prefix="pstore")


async def call(
    work: Callable[[Cancellation], T],
    cancel: Optional[Cancellation] = None,
    give_back: Optional[Callable[[T], object]] = None,
) -> T:
    """Has a thread do the work. If the task is cancelled, the work is, and its end is awaited.

    The work may be done before it can be ended. `give_back` then ends what it has made, since nobody will use it.
    """
    cancel = cancel or Cancellation()
    loop = asyncio.get_running_loop()
    done = loop.run_in_executor(_THREADS, work, cancel)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        cancel.cancel()
        await _ended(done)
        if done.cancelled():
            raise
        error = done.exception()
        if error is None and give_back is not None:
            await _ended(loop.run_in_executor(_THREADS, _quietly, give_back, done.result()))
        if error is not None and not isinstance(error, PstoreError):
            raise error from None
        raise


async def _ended(done: "asyncio.Future[Any]") -> None:
    """Waits until it has ended, however often the task is cancelled."""
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            continue


def _quietly(give_back: Callable[[T], object], made: T) -> None:
    """A cancellation is on its way, and must not be lost behind an error."""
    try:
        give_back(made)
    except PstoreError as error:
        LOG.warning("something of a cancelled task stays: %s", error)


def in_loop(progress: Optional[OnProgress]) -> Optional[OnProgress]:
    """Has progress told in the event loop."""
    if progress is None:
        return None
    loop, tell = asyncio.get_running_loop(), progress

    def told(value: Progress) -> None:
        loop.call_soon_threadsafe(tell, value)

    return told


class Managed:
    """What `async with` ends."""

    async def _end(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        raise NotImplementedError


class Pending(Generic[M]):
    """Something to `await`, or to use with `async with`, which also ends it."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, M]]) -> None:
        self._begin = begin
        self._begun: Optional[M] = None

    def __await__(self) -> Generator[Any, None, M]:
        return self._begin().__await__()

    async def __aenter__(self) -> M:
        self._begun = await self
        return self._begun

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._begun is not None:
            await self._begun._end(kind, error, trace)

"""Limits for connections to the page's server: seconds, bytes, and their number.

There is no limit while the server works. A client has a limited time to send its whole request, and
to read the next bytes of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pellucid import signals

#: Seconds for a whole request, and between two progressing reads of an answer.
PATIENCE = 10.0
#: Most connections; a browser opens six. One more closes the one that has waited longest.
MOST_CONNECTIONS = 128
#: Bytes of a request's head.
LARGEST_HEAD = 16_384
#: Seconds between two checks of a connection, and for open answers at the end.
_TICK, _GRACE = 0.5, 1


class Bounded(H11Protocol):
    """One connection."""

    _idle_since = _unsent = 0.0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of idle time; close the oldest connection if there are too many."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        connections = cast("set[Bounded]", self.connections)  # they are all of this class
        open_ones = [
            connection for connection in connections if not connection.transport.is_closing()
        ]
        if len(open_ones) > MOST_CONNECTIONS:
            waiting = [connection for connection in open_ones if not connection.working]
            min(waiting, key=lambda connection: connection._idle_since).transport.abort()
        self._clock = self.loop.call_later(_TICK, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        if self._clock is not None:
            self._clock.cancel()
        super().connection_lost(exc)

    @property
    def working(self) -> bool:
        """Whether a complete request waits for its answer."""
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Read data; a client that breaks the protocol loses its connection."""
        try:
            super().data_received(data)
        except h11.LocalProtocolError:  # the client broke the protocol after the answer began
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Start idle time anew."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def _look(self) -> None:
        current_time, buffered = self.loop.time(), self.transport.get_write_buffer_size()
        if buffered < self._unsent or (self.working and not buffered):
            self._idle_since = current_time
        self._unsent = buffered
        if current_time - self._idle_since > PATIENCE:
            self.transport.abort()
        else:
            self._clock = self.loop.call_later(_TICK, self._look)


class Server(uvicorn.Server):
    """Serves until a signal comes; `ended_by` is its number."""

    ended_by: int | None = None

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(
            app,
            http=Bounded,
            loop="asyncio",  # uvloop, if it is installed, rounds the times that are compared here
            ws="none",
            lifespan="off",
            log_level="error",
            h11_max_incomplete_event_size=LARGEST_HEAD,
            timeout_graceful_shutdown=_GRACE,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Like everywhere in pellucid: an ignored signal stays ignored; SIGHUP ends it too."""
        with signals.handled(signals.ENDING, self._end):
            yield

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self.ended_by = number

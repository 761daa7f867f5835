"""Events of jobs become a response; a client that leaves cancels its jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from pellucid.api.answers import Answer
from pellucid.api.choices import Delta
from pellucid.api.jobs import Event, Failed, Job
from pellucid.api.plan import Plan
from pellucid.api.refusals import ApiError, broken
from pellucid.errors import PellucidError
from pellucid.json_text import json_text

_log = logging.getLogger(__name__)

#: Seconds between two looks whether the client is still there.
_TICK = 0.2


class OpenJobs:
    """The jobs of one request, and their events in the order in which they come."""

    def __init__(self, plan: Plan) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._plan, self._next_look = plan, 0.0
        self._jobs: Sequence[Job] = plan.jobs(self._emit)

    def _emit(self, number: int, event: Event) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (number, event))

    def submit(self) -> None:
        """Give the jobs to the engine that need it.

        Raises:
            ApiError: too many wait.
        """
        jobs = [job for job in self._jobs if job.writes or job.scores]
        if jobs:
            self._plan.model.engine.submit(jobs)

    def cancel(self) -> None:
        """Stop all of them."""
        for job in self._jobs:
            job.cancelled.set()

    async def deltas(self, request: Request, answer: Answer) -> AsyncIterator[tuple[int, Delta]]:
        """The pieces of the choices, each with its number, until all are complete.

        Raises:
            ClientDisconnect: the client has left.
            PellucidError: a job failed.
        """
        choices = answer.choices
        for choice, job in zip(choices, self._jobs, strict=True):
            if not job.scores and (not job.writes or self._plan.request.echo):
                yield choice.number, choice.echo()
        while not all(choice.finish for choice in choices):
            number, event = await self._next(request)
            if isinstance(event, Failed):
                raise event.error
            delta = choices[number].add(event)
            if delta.text or delta.tokens or delta.finish:
                yield number, delta

    async def _next(self, request: Request) -> tuple[int, Event]:
        while True:
            # while tokens come too: most answers are over before a client reads one
            if self._loop.time() >= self._next_look:
                self._next_look = self._loop.time() + _TICK
                if await request.is_disconnected():
                    raise ClientDisconnect
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    return await self._queue.get()


def open_jobs(plan: Plan) -> OpenJobs:
    """The jobs of a plan, submitted to the engine.

    Raises:
        ApiError: too many wait.
    """
    jobs = OpenJobs(plan)
    jobs.submit()
    return jobs


async def collect(request: Request, answer: Answer, jobs: OpenJobs) -> dict[str, Any]:
    """The whole response, once it is complete.

    Raises:
        ClientDisconnect: the client has left.
        PellucidError: a job failed.
    """
    deltas: list[list[Delta]] = [[] for _ in answer.choices]
    try:
        async for number, delta in jobs.deltas(request, answer):
            deltas[number].append(delta)
    finally:
        jobs.cancel()
    return answer.body(deltas)


class EventStream(StreamingResponse):
    """Server-sent events: a chunk for each piece, then the usage if it is asked for."""

    def __init__(
        self, request: Request, answer: Answer, jobs: OpenJobs, *, include_usage: bool
    ) -> None:
        self._request, self._answer, self._jobs = request, answer, jobs
        self._include_usage = include_usage
        super().__init__(
            self._events(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _events(self) -> AsyncIterator[str]:
        answer = self._answer
        try:
            for choice in answer.choices if answer.is_chat else ():
                yield _event(answer.first_chunk(choice))
            async for number, delta in self._jobs.deltas(self._request, answer):
                yield _event(answer.chunk(answer.choices[number], delta))
            if self._include_usage:
                yield _event(answer.usage_chunk())
            yield "data: [DONE]\n\n"
        except ClientDisconnect:
            return
        except ApiError as error:
            yield _event(error.body())
        except PellucidError as error:
            yield _event(ApiError(str(error)).body())
        except Exception:
            _log.exception("a stream failed")
            yield _event(broken().body())
        finally:
            self._jobs.cancel()


def error_event(error: ApiError) -> Response:
    """A stream that has only a refusal."""
    return Response(_event(error.body()), media_type="text/event-stream")


def _event(body: dict[str, Any]) -> str:
    return f"data: {json_text(body, ensure_ascii=False)}\n\n"

"""The thread that writes all texts of one model, a token of each at a time.

At most `rows` texts are open; before each token one waiting text joins them and cancelled ones
leave. A bounded number waits, and more are refused. A text is the same whatever else is written.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence

import torch

from pellucid.api.jobs import Failed, Job, Scored, Writing, WrittenToken
from pellucid.api.metrics import ModelMetrics
from pellucid.api.refusals import ApiError, broken
from pellucid.errors import PellucidError
from pellucid.generation import ContinuousBatch, encode
from pellucid.inference import predictions
from pellucid.model import Transformer
from pellucid.saved_runs.load import Run

_log = logging.getLogger(__name__)


class Engine:
    """Writes texts with one run until `close`.

    Args:
        run: the run.
        rows: the most texts that are written at a time.
        waiting: the most texts that wait.
        metrics: counts what it does.
    """

    def __init__(self, run: Run, *, rows: int, waiting: int, metrics: ModelMetrics) -> None:
        self.run, self._tokenizer = run, run.require_tokenizer()
        self.model = share_weights(run.model)
        self._rows, self._most_waiting, self._metrics = rows, waiting, metrics
        self._batch = ContinuousBatch(self.model, capacity=rows)
        self._waiting: deque[Job] = deque()
        self._open: list[Writing] = []
        self._condition = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="pellucid-writes", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait for their turn: all of them, or none.

        Raises:
            ApiError: too many wait already, or these alone are too many.
        """
        capacity = self._rows + self._most_waiting
        if len(jobs) > capacity:
            raise ApiError(
                f"the request is for {len(jobs):,} texts, and this server takes {capacity:,} at a "
                "time: ask for fewer"
            )
        with self._condition:
            if self._closed:
                raise ApiError("the server is closing: start it again", status=503)
            self._waiting = deque(job for job in self._waiting if not job.cancelled.is_set())
            if len(self._waiting) + len(self._open) + len(jobs) > capacity:
                raise ApiError(
                    f"{len(self._open):,} texts are being written and {len(self._waiting):,} wait: "
                    "try again in a moment",
                    status=429,
                    code="rate_limit_exceeded",
                )
            self._waiting.extend(jobs)
            self._condition.notify()

    def close(self) -> None:
        """End the thread; open jobs fail."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(10)

    def _work(self) -> None:
        while self._has_work():
            try:
                self._drop_cancelled()
                self._admit()
                self._step()
            except Exception as error:  # such as memory that ran out: the next request may fit
                if not isinstance(error, PellucidError):
                    _log.exception("a batch failed")
                self._fail([writing.job for writing in self._open], error)
                self._open = []
                self._batch = ContinuousBatch(self.model, capacity=self._rows)
            self._metrics.n_writing, self._metrics.n_waiting = len(self._open), len(self._waiting)
        self._fail(
            [*(writing.job for writing in self._open), *self._waiting],
            ApiError("the server is closing", status=503),
        )

    def _has_work(self) -> bool:
        """Wait until there is some; false at the end."""
        with self._condition:
            while not (self._closed or self._waiting or self._open):
                self._condition.wait()
            return not self._closed

    def _drop_cancelled(self) -> None:
        for writing in [w for w in self._open if w.job.cancelled.is_set()]:
            self._end(writing)

    def _admit(self) -> None:
        """Let one waiting text join; the open ones get their next token before another joins."""
        with self._condition:
            job = self._waiting.popleft() if self._waiting and self._batch.n_free else None
        if job is None or job.cancelled.is_set():
            return
        try:
            self._begin(job)
        except Exception as error:
            if not isinstance(error, PellucidError):
                _log.exception("a text failed")
            self._fail([job], error)

    def _begin(self, job: Job) -> None:
        self._metrics.prompt_tokens += len(job.prompt)
        if job.scores:
            top = job.likeliest
            scored = list(predictions(self.model, self._tokenizer, list(job.prompt), top=top))
            _emit(job, Scored(scored))
        if job.writes:
            encoded = None if job.source is None else encode(self.model, [job.source])
            text, logits = self._batch.join(job.prompt, encoded)
            writing = Writing(job, text, self._tokenizer)
            self._open.append(writing)
            self._metrics.saw_first_token(job.created)
            self._take(writing, logits)

    def _step(self) -> None:
        writings = list(self._open)
        if not writings:
            return
        texts, tokens = [w.text for w in writings], [w.last_token for w in writings]
        for writing, logits in zip(writings, self._batch.step(texts, tokens), strict=True):
            self._take(writing, logits[None])

    def _take(self, writing: Writing, logits: torch.Tensor) -> None:
        try:
            event: WrittenToken | Failed = writing.take(logits)
            self._metrics.completion_tokens += 1
        except PellucidError as error:  # numbers of this text alone
            event = Failed(error)
        if isinstance(event, Failed) or event.stopped:
            self._end(writing)
        _emit(writing.job, event)

    def _end(self, writing: Writing) -> None:
        self._open.remove(writing)
        self._batch.remove(writing.text)

    def _fail(self, jobs: Iterable[Job], error: Exception) -> None:
        event = Failed(error if isinstance(error, PellucidError) else broken())
        for job in jobs:
            _emit(job, event)


def _emit(job: Job, event: WrittenToken | Scored | Failed) -> None:
    try:
        job.emit(event)
    except RuntimeError:  # the event loop of the client is gone
        job.cancelled.set()


def share_weights(model: Transformer) -> Transformer:
    """Other modules with the same weights: hooks on the one do not see passes of the other.

    The page puts hooks on the modules of a run while this thread writes with it.
    """
    tensors = [*model.parameters(), *model.buffers()]
    for narrow in model.narrow.values():
        tensors += [tensor for tensor in (narrow.values, narrow.scales) if tensor is not None]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})

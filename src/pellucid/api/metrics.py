"""Counts of the API, as text for Prometheus."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

#: The upper edges of the histogram of times to the first token, in seconds.
_EDGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ModelMetrics:
    """Counts of one model."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.n_writing = 0
        self.n_waiting = 0
        self._first_counts = [0] * (len(_EDGES) + 1)
        self._first_seconds = 0.0

    def saw_first_token(self, created: float) -> None:
        """Count the time from a request, `created` on the monotonic clock, to its first token."""
        seconds = time.monotonic() - created
        self._first_counts[bisect_left(_EDGES, seconds)] += 1
        self._first_seconds += seconds

    def lines(self, model: str) -> Iterator[tuple[str, str]]:
        """Lines, each with the name of its metric."""
        label = f'model="{_escape(model)}"'
        yield "tokens_total", f'{{{label},kind="prompt"}} {self.prompt_tokens}'
        yield "tokens_total", f'{{{label},kind="completion"}} {self.completion_tokens}'
        yield "texts_writing", f"{{{label}}} {self.n_writing}"
        yield "texts_waiting", f"{{{label}}} {self.n_waiting}"
        count = 0
        for edge, n in zip((*map(str, _EDGES), "+Inf"), self._first_counts, strict=True):
            count += n
            yield "first_token_seconds", f'_bucket{{{label},le="{edge}"}} {count}'
        yield "first_token_seconds", f"_sum{{{label}}} {self._first_seconds:.6f}"
        yield "first_token_seconds", f"_count{{{label}}} {count}"


#: Each metric: its type, and its description.
_METRICS = {
    "requests_total": ("counter", "Requests by route and HTTP status."),
    "tokens_total": ("counter", "Tokens read and written."),
    "texts_writing": ("gauge", "Texts that are being written."),
    "texts_waiting": ("gauge", "Texts that wait for their turn."),
    "first_token_seconds": ("histogram", "Time from a request to its first token."),
}


class Metrics:
    """Counts of all models, and of requests."""

    def __init__(self) -> None:
        self._models: dict[str, ModelMetrics] = {}
        self._requests: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def for_model(self, model: str) -> ModelMetrics:
        """The counts of a model."""
        with self._lock:
            return self._models.setdefault(model, ModelMetrics())

    def count_request(self, route: str, status: int) -> None:
        """Count one request."""
        with self._lock:
            self._requests[route, status] += 1

    def text(self) -> str:
        """All counts in Prometheus's text format."""
        with self._lock:
            requests, models = dict(self._requests), dict(self._models)
        lines: dict[str, list[str]] = {name: [] for name in _METRICS}
        lines["requests_total"] = _request_lines(requests)
        for model, counts in models.items():
            for name, line in counts.lines(model):
                lines[name].append(line)
        parts: list[str] = []
        for name, (kind, description) in _METRICS.items():
            parts += [f"# HELP pellucid_{name} {description}", f"# TYPE pellucid_{name} {kind}"]
            parts += [f"pellucid_{name}{line}" for line in lines[name]]
        return "\n".join(parts) + "\n"


def _request_lines(requests: Mapping[tuple[str, int], int]) -> list[str]:
    return [
        f'{{route="{route}",status="{status}"}} {n}'
        for (route, status), n in sorted(requests.items())
    ]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

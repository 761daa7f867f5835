"""Who looks into a job while it runs, and tells what was seen.

Comes in: a job, and a way to tell all observers something. Goes out: an observer for as long as the
run lasts. It does not know who looks, nor at what.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from pellucid.training.events import Observer
from pellucid.training.loop import Job

Watcher = Callable[[Job, Observer], AbstractContextManager[Observer]]

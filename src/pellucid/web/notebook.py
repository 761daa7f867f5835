"""A trace in a notebook: the page of its sentence in a frame, readable later without a kernel.

Importing this module sets `ModelTrace.face`, which a notebook calls.
"""

from __future__ import annotations

from html import escape

from pellucid.explain import Trace
from pellucid.explain.tracing import ModelTrace
from pellucid.web.onefile import one_page
from pellucid.web.requests import Reading
from pellucid.web.run_registry import RunRegistry
from pellucid.web.sentence_view import SentenceView
from pellucid.web.session import Session


def render_notebook(trace: Trace) -> str | None:
    """The page in a frame; None for a trace of ids or with scaled heads, which has none."""
    if trace.run is None or trace.scales or not trace.sentence.text:
        return None
    session = Session(RunRegistry([trace.run]), sentence=trace.sentence.text)
    reading = Reading(session.shelf.keys[0], "", trace.sentence.text)
    session.keep(reading, SentenceView(trace))
    return framed(one_page(session, reading).html)


def framed(html: str, *, height: int = 760) -> str:
    """The page in a sandboxed frame of another page, such as a notebook.

    It is ASCII, so it reads the same whatever character set the outer page has.

    Args:
        html: The whole page.
        height: Height of the frame in pixels.
    """
    ascii_text = escape(html).encode("ascii", "xmlcharrefreplace").decode()
    return (
        f'<iframe srcdoc="{ascii_text}" sandbox="allow-scripts" width="100%" height="{height}" '
        'style="border:0" title="pellucid"></iframe>'
    )


ModelTrace.face = staticmethod(render_notebook)

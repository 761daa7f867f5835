"""A trace in a notebook: the page of its sentence in a frame, live or as a copy; and short tables.

With anywidget (the extra `notebook`) the page asks the kernel, so that everything can be chosen.
Without it the frame holds a copy, as a file does. Importing this module sets how a notebook shows
traces, gradients, receipts, attributions, runs and configs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pellucid import config
from pellucid.catalogue import LANGUAGES, message
from pellucid.display.numbers import short
from pellucid.errors import PellucidError
from pellucid.explain import Attribution, Trace
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.gradients import ModelGradients
from pellucid.explain.trace_types import Gradients
from pellucid.explain.tracing import ModelTrace
from pellucid.explain.why.html_tables import attribution_table, html_table, receipt_table
from pellucid.json_text import json_text
from pellucid.reader import parse_json
from pellucid.report.card import config_table, run_card
from pellucid.runs import Run
from pellucid.web.assets import page_texts
from pellucid.web.json_payload import text_of, with_messages
from pellucid.web.onefile import inline_page, one_page
from pellucid.web.requests import Reading, parse_request
from pellucid.web.run_registry import RunRegistry
from pellucid.web.sentence_view import SentenceView
from pellucid.web.session import Session

_HEIGHT = 760
_CARD_HEIGHT = 860
_WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
#: The cell's part of the bridge: it hands messages on between the frame and the kernel.
_CELL = f"""
export default {{
  render({{ model, el }}) {{
    const frame = document.createElement("iframe");
    frame.srcdoc = model.get("page");
    frame.sandbox = "allow-scripts";
    frame.title = "pellucid";
    frame.style = "width: 100%; height: {_HEIGHT}px; border: 0";
    const ask = ({{ source, data }}) => source === frame.contentWindow && model.send(data);
    const answer = (message) => frame.contentWindow?.postMessage(message, "*");
    addEventListener("message", ask);
    model.on("msg:custom", answer);
    el.append(frame);
    return () => {{
      removeEventListener("message", ask);
      model.off("msg:custom", answer);
    }};
  }},
}};
"""


def render_notebook(trace: Trace) -> str | None:
    """The page in a frame; a table of the tokens for a trace that has no page."""
    opened = _open_session(trace)
    return summarise(trace) if opened is None else framed(one_page(*opened).html)


def show_live(trace: Trace) -> Mapping[str, Any] | None:
    """The live page for a notebook; None without anywidget, and for a trace that has no page."""
    opened = _open_session(trace)
    if opened is None or find_spec("anywidget") is None:
        return None
    session, _ = opened
    widget = _widget_class()(page=inline_page('<meta id="bridge">'))

    def answer(_: Any, content: Any, __: Any) -> None:
        widget.send({"id": content["id"], "answer": answer_text(session, content["asked"])})

    widget.on_msg(answer)
    return {
        _WIDGET_TYPE: {"version_major": 2, "version_minor": 1, "model_id": widget.model_id},
        "text/plain": repr(trace),
        "text/html": summarise(trace),
    }


def answer_text(session: Session, request: str) -> str:
    """The answer to a request of the page, as JSON; a refusal is an answer too.

    Besides what a server answers, `{"texts": TAG}` asks for the texts of a language.
    """
    try:
        content = parse_json(request, message("request"))
        for language in LANGUAGES:
            if content == {"texts": language}:
                return json_text(page_texts(language))
        return session.answer(parse_request(content)).decode()
    except PellucidError as error:
        return json_text(with_messages({"error": text_of(error)}))


def summarise(trace: Trace) -> str:
    """The tokens of a trace, each with its surprisal, as a table."""
    view = SentenceView(trace)
    rows = [
        (n, piece, token_id, "" if nats is None else f"{nats:.2f}")
        for n, (piece, token_id, nats) in enumerate(
            zip(view.pieces, view.ids, view.surprisals(), strict=True)
        )
    ]
    return html_table(repr(trace), ("token", "text", "id", "bits"), rows)


def summarise_gradients(gradients: Gradients) -> str:
    """The parameters with the longest gradients, as a table."""
    norms = sorted(gradients.norms.items(), key=lambda item: -item[1])
    weights = dict(gradients.trace.model.named_parameters())
    rows = [(name, short(weights[name].numel()), f"{norm:.4g}") for name, norm in norms]
    return html_table(repr(gradients), ("parameter", "numbers", "length"), rows)


def framed(html: str, *, height: int = _HEIGHT) -> str:
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


def _open_session(trace: Trace) -> tuple[Session, Reading] | None:
    """A session that holds the trace; None for a trace of ids or with changes: it has no page."""
    if trace.run is None or trace.scales or trace.edits or not trace.sentence.text:
        return None
    session = Session(RunRegistry([trace.run]), sentence=trace.sentence.text)
    reading = Reading(session.shelf.keys[0], "", trace.sentence.text)
    session.keep(reading, trace)
    return session, reading


@cache
def _widget_class() -> Any:
    anywidget: Any = import_module("anywidget")
    page: Any = import_module("traitlets").Unicode().tag(sync=True)
    return type("PageWidget", (anywidget.AnyWidget,), {"_esm": _CELL, "page": page})


def show_run(run: Run) -> str:
    """The card of a run in a frame, which keeps its style from the notebook's."""
    return framed(run_card(run), height=_CARD_HEIGHT)


ModelTrace.face = staticmethod(render_notebook)
ModelTrace.live = staticmethod(show_live)
ModelGradients.face = staticmethod(summarise_gradients)
# the rooms below know nothing of notebooks
setattr(Receipt, "_repr_html_", receipt_table)  # noqa: B010
setattr(Attribution, "_repr_html_", attribution_table)  # noqa: B010
setattr(Run, "_repr_html_", show_run)  # noqa: B010
setattr(config.Run, "_repr_html_", config_table)  # noqa: B010

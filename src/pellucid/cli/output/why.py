"""The last answer of a chat, opened: its probabilities in the terminal, every number on a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.inference import Turn
    from pellucid.runs import Run

_OTHERS = 3


def why_lines(run: Run, turn: Turn) -> Iterator[str]:
    """Each token of an answer with its probability, and the likeliest in its place.

    The probabilities are the model's own, before the temperature.
    """
    from pellucid.display.terminal_text import fitted, visible
    from pellucid.inference import predictions

    tokenizer = run.require_tokenizer()
    read = predictions(run.model, tokenizer, turn.ids, top=_OTHERS, first=turn.n_prompt)
    yield f"{'token':<16} {'p':>7}  likeliest in its place"
    for prediction, token_id in zip(read, turn.ids[turn.n_prompt :], strict=False):
        share = math.exp(prediction.log_p or 0.0)
        others = "  ".join(
            f"{visible(other.token)!r} {other.probability:.1%}" for other in prediction.likeliest
        )
        token = fitted(repr(visible(tokenizer.token(token_id))), 16)
        yield f"{token} {share:>7.1%}  {others}"


def page_of_turn(run: Run, turn: Turn, note: Callable[[str], None]) -> None:
    """Serve the page with an answer open, until Ctrl-C."""
    from pellucid.web import open_session
    from pellucid.web.serving import serve

    session = open_session([run])
    # the prediction after the last token of the prompt is the first token of the answer
    session.first_ids, session.first_token = turn.ids, turn.n_prompt - 1

    def ready(address: str) -> None:
        note("Every number of it, with receipts; open it in a browser:")
        print(address, flush=True)
        note("Ctrl-C closes the page and goes back to the chat.")

    try:
        serve(session, ready=ready)
    except KeyboardInterrupt:
        print()

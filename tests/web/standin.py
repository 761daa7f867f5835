"""Three chapters of a tiny real model, for what is tested before there is more to tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pellucid.explain import Trace
from pellucid.explain.chapter import Bars, Chapter, Matrix, Place, Receipt, Table, Tokens, Lines
from pellucid.explain.expressions import Apply, Number, Vector
from pellucid.web import Session, Shelf
from pellucid.web.reading import open_with
from pellucid.web.told import Heading


class Book:
    """Tokens, scores, probabilities."""

    def contents(self, read: Trace, versus: Trace | None) -> Sequence[Heading]:
        names = [("tokens", "Tokens", "forward"), ("scores", "Scores", "forward"), ("norm", "Norm", "forward"),("embedding","Embedding","forward"),("position","Positions","forward"),("heads","Heads","forward"),("residual","Residual sums","forward"),("ffn","Feed-forward","forward"),("lens","Logit lens","forward")]
        found = [Heading(id=i, number=n + 1, part=part, title=t) for n, (i, t, part) in enumerate(names)]
        found.append(Heading(id="backward", number=12, part="backward", title="Backward", costly=True))
        found.append(Heading(id="update", number=13, part="update", title="AdamW", costly=True))
        return found

    def chapter(self, read: Trace, name: str, place: Place, versus: Trace | None) -> Chapter:
        pieces = read.sentence.pieces
        token = place.token % len(pieces)
        if name == "tokens":
            bits = [0.0, *(float(s) / math.log(2) for s in read["surprisal"])]
            return Chapter(
                id="tokens", number=1, part="forward", title="Tokens",
                sentence=f"The sentence becomes {len(pieces)} tokens, each with its row in the vocabulary.",
                pictures=(Tokens(title="Surprisal", pieces=pieces, ids=read.sentence.ids, values=tuple(bits), unit="bits"),
                Table(title="The tokens", columns=("token", "id", "bits"), rows=tuple((p, i, b) for p, i, b in zip(pieces, read.sentence.ids, bits, strict=True))),
                Lines(title="Surprisal along the sentence", names=("bits","half"), x=tuple(float(i) for i in range(len(bits))), series=(tuple(bits),tuple(b/2 for b in bits)), x_unit="token", unit="bits")),
                notes=("The begin of the text is a token too.",),
            )
        at = f"L{place.layer}.H{place.head}"
        q, k = read[f"{at}.q"], read[f"{at}.k"]
        scores, weights = read[f"{at}.scores"], read[f"{at}.weights"]
        other = min(place.other, token)
        dot = Apply("dot", (Vector(tuple(q[token].tolist()), "q", f"{at}.q[{token}]"), Vector(tuple(k[other].tolist()), "k", f"{at}.k[{other}]")))
        seen = read[f"{at}.mask"]
        hidden = tuple(tuple(float(v) if bool(m) else None for v, m in zip(row, ms, strict=True)) for row, ms in zip(scores, seen, strict=True))
        return Chapter(
            id=name, number=2, part="forward", title="Scores",
            sentence=f"The query of {pieces[token]!r} is compared with every key it may see; the larger the product, the more it will take from there.",
            pictures=(
                Matrix(title="Scores before the mask", rows=pieces, columns=pieces, values=hidden, scale="diverging", address=f"{at}.scores"),
                Matrix(title="Weights after the softmax", rows=pieces, columns=pieces, values=tuple(tuple(map(float, row)) for row in weights), scale="sequential", address=f"{at}.weights"),
                Bars(title="What is taken from where", names=pieces[:token + 1], values=tuple(map(float, weights[token][: token + 1]))),
                Bars(title="Query", names=tuple(f"q[{n}]" for n in range(len(q[token]))), values=tuple(map(float, q[token])), rest=-0.2),
            ),
            receipts=(Receipt(title="One score", formula="q · k / √d", expression=Apply("div", (dot, Apply("sqrt", (Number(float(q.shape[1]), "d"),)))), model=float(scores[token, other]), tolerance=1e-5, address=f"{at}.scores[{token}, {other}]", source="model/scores.py:75"),
            Receipt(title="One score", formula="q · k / √d", expression=Apply("div", (dot, Apply("sqrt", (Number(float(q.shape[1])+1, "d"),)))), model=float(scores[token, other]), tolerance=1e-5, address=f"{at}.scores[{token}, {other}]", source="model/scores.py:75")),
        )


def session_of(*folders: Path) -> Session:
    """A session over runs with the chapters above."""
    return Session(Shelf(folders), partial(open_with, Book()), sentence="Once upon a time, the cat sat on the")

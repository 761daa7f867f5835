"""Over time: a sentence inside the model while it was trained.

Its numbers come from the film, taken from the weights of each moment; the trace gives the sentence
and the place.
"""

from __future__ import annotations

import math

from torch import Tensor

from pellucid.catalogue import message
from pellucid.explain import outputs
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.chapter_types import Content, Film, Frames, Receipt
from pellucid.explain.chapters.pictures import window
from pellucid.explain.expressions import constant
from pellucid.explain.films.capture import SIDE, Snapshot, pooled
from pellucid.explain.films.source import filmed_sentences, footage
from pellucid.explain.films.store import Film as Footage
from pellucid.explain.formulas.trees import cell
from pellucid.explain.losses.names import piece
from pellucid.explain.outputs import mask_or
from pellucid.explain.receipts.builder import ReceiptBuilder
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.saved_runs.folder import is_published
from pellucid.typed import to_list

#: Curves and layers that are shown, at most.
_CURVES, _LAYERS = 64, 16
#: Bytes of all maps together: a page holds all of a film that it plays.
_BYTES = 56_000


def build(trace: Trace, selection: Selection) -> Content:
    """Probabilities and loss by snapshot; the head's map; the layers at the selected token."""
    if trace.run is None or not trace.sentence.text:
        return Content(sentence=message("film.ids-in-a-bare-model"))
    if trace.sentence.kind == "encoder-decoder":
        return Content(sentence=message("film.there-are-no-films-of"))
    film = footage(trace.run, trace.sentence)
    if film.ids != trace.sentence.ids:
        return Content(sentence=message("film.the-film-of-this-sentence"))
    if len(film.snapshots) < 2:
        return Content(sentence=_describe_filming(trace, film), notes=film.problems)
    selected, frames = mask_or(trace, selection.token), _frames(trace, film, selection)
    # every number of the film is of one token: one whose next token came, if there are losses
    has_losses = film.snapshots[0].loss is not None
    token = min(selected, len(trace.ids) - 2) if has_losses else selected
    return Content(
        sentence=_story(trace, film, token),
        pictures=(_film(trace, film, token), frames),
        receipts=(_receipt(trace, film, token),),
        notes=(
            *film.problems,
            message("film.no-token-came-after") if token != selected else None,
            message("film.layer-has-no-map-of", layer=selection.layer) if frames is None else None,
            message("film.the-film-shows-the-model") if trace.scales else None,
            message("film.for-more-moments-film-it", command=_command(trace))
            if film.origin.endswith("checkpoints")
            else None,
        ),
    )


def _story(trace: Trace, film: Footage, token: int) -> str:
    first, last = film.snapshots[0], film.snapshots[-1]
    text = message("film.from-update-to", origin=film.origin, step=first.step, step2=last.step)
    if first.loss is None or last.loss is None:
        return message("film.what-the-model-expected-in", text=text)
    word = piece(trace, int(trace.ids[token + 1]))
    p = [math.exp(-float(snapshot.tensors["surprisal"][token])) for snapshot in (first, last)]
    return message(
        "film.the-loss-of-the-sentence",
        text=text,
        loss=first.loss,
        loss2=last.loss,
        word=word,
        p=p[0],
        p2=p[1],
    )


def _describe_filming(trace: Trace, film: Footage) -> str:
    assert trace.run is not None
    if is_published(trace.run.folder):
        return message("film.a-published-model-holds-no", command=_command(trace))
    sentences = ", ".join(map(repr, filmed_sentences(trace.run)[:5]))
    other_films = message("film.it-has-films-of", sentences=sentences) if sentences else ""
    available = (
        message("film.one-readable-snapshot")
        if film.snapshots
        else message("film.no-film-of-this-sentence")
    )
    return message(
        "film.this-run-has-and-fewer",
        available=available,
        other_films=other_films,
        command=_command(trace),
    )


def _command(trace: Trace) -> str:
    text = trace.sentence.text
    return f'pellucid train ... --film "{text if len(text) < 60 else "SENTENCE"}"'


def _film(trace: Trace, film: Footage, token: int) -> Film:
    shots, pieces = film.snapshots, trace.pieces(trace.side)
    names: tuple[str, ...] = ()
    curves: tuple[tuple[float, ...], ...] = ()
    selected, losses = None, tuple(shot.loss for shot in shots if shot.loss is not None)
    if losses:
        places = window(token, len(trace.ids) - 1, _CURVES)
        names = tuple(pieces[place + 1] for place in places)
        p = [to_list((-shot.tensors["surprisal"].double()).exp()) for shot in shots]
        curves = tuple(tuple(curve[place] for curve in p) for place in places)
        selected = token - places[0]
    layers = _layers(shots[0].tensors[f"{trace.side}.norms"])
    return Film(
        title=message("film.after", token=label(pieces, token)),
        steps=tuple(shot.step for shot in shots),
        names=names,
        curves=curves,
        chosen=selected,
        losses=losses,
        layers=tuple(
            message("word.embedding") if n == 0 else message("film.layer", number=n - 1)
            for n in layers
        ),
        rungs=tuple(tuple(_rung(trace, shot, n, token) for n in layers) for shot in shots),
    )


def _layers(norms: Tensor) -> list[int]:
    """All layers, or some at even distances with the first and the last among them."""
    count = len(norms)
    if count <= _LAYERS:
        return list(range(count))
    return sorted({round(n * (count - 1) / (_LAYERS - 1)) for n in range(_LAYERS)})


def _rung(
    trace: Trace, shot: Snapshot, layer: int, token: int
) -> tuple[str, float | None, float | None, float]:
    tensors = shot.tensors
    norm = float(tensors[f"{trace.side}.norms"][layer, token])
    if "words" not in tensors:
        return "", None, None, norm
    word = piece(trace, int(tensors["words"][layer, token, 0]))
    targets = tensors.get("targets")
    has_target = targets is not None and token < targets.shape[1]
    target = float(targets[layer, token]) if targets is not None and has_target else None
    return word, float(tensors["shares"][layer, token, 0]), target, norm


def _frames(trace: Trace, film: Footage, selection: Selection) -> Frames | None:
    name = f"{stack_letter(selection.side)}{selection.layer}.weights"
    shots = film.snapshots
    if name not in shots[0].tensors or selection.cross:
        return None
    maps = [shot.tensors[name][selection.head] for shot in shots]
    pooled_maps = [pooled(shades[None], math.isqrt(_BYTES // len(shots))) for shades in maps]
    pieces = trace.pieces(selection.side)
    patch = max(1, -(-len(pieces) // SIDE)) * pooled_maps[0][1]
    return Frames(
        title=message("film.weights-of-queries-down-keys", head_name=selection.head_name),
        steps=tuple(shot.step for shot in shots),
        rows=pieces[::patch],
        columns=pieces[::patch],
        frames=tuple(tuple(map(tuple, to_list(frame[0]))) for frame, _ in pooled_maps),
        pooled="" if patch == 1 else message("film.pooled-each-cell-is-the", patch=patch),
        patch=patch,
    )


def _receipt(trace: Trace, film: Footage, token: int) -> Receipt | None:
    """The film and the loaded weights, if they are of the same update."""
    assert trace.run is not None
    current = [s for s in film.snapshots if trace.run.checkpoint.name == f"step-{s.step}"]
    if not current or trace.scales or "surprisal" not in current[0].tensors:
        return None
    return _film_receipt(trace, current[0], token)


def _film_receipt(trace: Trace, snapshot: Snapshot, token: int) -> Receipt:
    """exp of the filmed surprisal, and the probability that the weights give now."""
    word = int(trace.ids[token + 1])
    surprisal = constant(float(snapshot.tensors["surprisal"][token]), "surprisal")
    return ReceiptBuilder(trace).receipt(
        cell("probabilities", token, word),
        title=message("film.p-of-at-update-filmed", word=piece(trace, word), step=snapshot.step),
        formula="exp(-surprisal)",
        expression=(-surprisal).exp(),
        source=(outputs.read_probabilities, 'torch.softmax(widen(trace["logits"])'),
    )

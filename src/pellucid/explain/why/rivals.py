"""The two words of a question: as they were written, or the likeliest and its runner-up."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.catalogue import join, message
from pellucid.config import ClassificationHead
from pellucid.errors import PellucidError
from pellucid.explain.outputs import mask_or, widen
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.types import Rivals, Word
from pellucid.typed import to_list


@torch.no_grad()
def find_rivals(
    trace: Trace, word: Word | None, rather_than: Word | None, token: int = -1
) -> Rivals:
    """The word that is asked about, and the one that it is compared with.

    Args:
        trace: the sentence.
        word: the word; the likeliest by default.
        rather_than: the other; by default the likeliest, or its runner-up if `word` is that.
        token: the place of the prediction, counted from 0.

    Raises:
        PellucidError: the model predicts no word and no class, the word is no single token, the two
            are the same, or there is no such place.
    """
    if trace.model.classifier is not None:
        logits, kind, place = trace["class_logits"], "class", None
        probabilities, uncapped = torch.softmax(widen(logits), -1), logits
    else:
        place = _place(trace, token)
        logits, kind = trace.logits_at(place), "word"
        probabilities, uncapped = torch.softmax(widen(logits), -1), _before_cap(trace, place)
    ranked = logits.argsort(descending=True)
    word_id = int(ranked[0]) if word is None else _find(trace, word, logits)
    runner_up = next(int(index) for index in ranked if int(index) != word_id)
    other = runner_up if rather_than is None else _find(trace, rather_than, logits)
    if word_id == other:
        raise PellucidError(message("why.both-words-are-ask-for", name=repr(_name(trace, word_id))))
    pair = [word_id, other]
    return Rivals(
        kind=kind,
        token=place,
        ids=(word_id, other),
        names=(_name(trace, word_id), _name(trace, other)),
        logits=_two(logits[pair]),
        uncapped=_two(uncapped[pair]),
        probabilities=_two(probabilities[pair]),
    )


def _two(numbers: Tensor) -> tuple[float, float]:
    first, second = to_list(numbers.double())
    return first, second


def _place(trace: Trace, token: int) -> int:
    model, time = trace.model, len(trace.ids)
    if not model.has_head:
        raise PellucidError(
            message(
                "why.this-model-says-no-word", no_token_logits=model.output_head.no_token_logits
            )
        )
    if not -time <= token < time:
        raise PellucidError(message("why.there-is-no-token-there", token=token, time=time))
    return mask_or(trace, token % time)


def _before_cap(trace: Trace, place: int) -> Tensor:
    """The logits without the soft cap, in float64."""
    model = trace.model
    if model.soft_cap is None:
        return trace.logits_at(place)
    hidden = model.readable(trace.last[place]).double()
    logits = model.head_weight.double() @ hidden
    return logits if model.head_bias is None else logits + model.head_bias.double()


def _find(trace: Trace, word: Word, logits: Tensor) -> int:
    """The row of a word or a class."""
    names = _class_names(trace) if trace.model.classifier is not None else None
    if isinstance(word, str) and names is not None:
        if word in names:
            return names.index(word)
        raise PellucidError(
            message("why.there-is-no-class-the", word=repr(word), names=join(", ", names))
        )
    if isinstance(word, str) and trace.spelling is not None:
        return _token_of(trace, word, logits)
    return _row_of(word, len(logits))


def _row_of(word: Word, n_rows: int) -> int:
    """A word by its token id."""
    try:
        row = int(word)
    except ValueError:
        raise PellucidError(message("why.is-no-number-this-model", word=repr(word))) from None
    if not 0 <= row < n_rows:
        raise PellucidError(message("why.there-is-no-logit-there", row=row, n_rows=n_rows))
    return row


def find_token(trace: Trace, word: Word) -> int:
    """The id of a word, or of a token by its number.

    Raises:
        PellucidError: it is no single token of the model.
    """
    rows = trace.model.token_embedding.weight
    if isinstance(word, str) and trace.spelling is not None:
        return _token_of(trace, word, rows.new_zeros(len(rows)))
    return _row_of(word, len(rows))


def _token_of(trace: Trace, word: str, logits: Tensor) -> int:
    """The token of a word, with or without a blank before it: the likelier of the two."""
    assert trace.run is not None
    tokenizer = trace.run.require_tokenizer()
    spellings = [word] if word.startswith(" ") else [word, f" {word}"]
    encoded = [tokenizer.encode(spelling) for spelling in spellings if spelling]
    single = {ids[0] for ids in encoded if len(ids) == 1} - {tokenizer.unknown_id}
    if single:
        return max(single, key=lambda token_id: float(logits[token_id]))
    pieces = [_name(trace, token_id) for token_id in encoded[0]] if encoded else []
    raise PellucidError(message("why.is-no-single-token-the", word=repr(word), pieces=pieces))


def _class_names(trace: Trace) -> tuple[str, ...]:
    n_classes = len(trace["class_logits"])
    head = None if trace.run is None else trace.run.config.model.head
    if isinstance(head, ClassificationHead) and head.classes is not None:
        return head.classes
    return tuple(str(number) for number in range(n_classes))


def _name(trace: Trace, row: int) -> str:
    if trace.model.classifier is not None:
        return _class_names(trace)[row]
    return f"#{row}" if trace.spelling is None else trace.spelling.any_piece(row)

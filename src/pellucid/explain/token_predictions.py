"""One sentence as the model reads it: the likeliest tokens at each place, and what came."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pellucid.explain.sentence import encode_sentence
from pellucid.inference.scoring import predictions
from pellucid.runs import Run
from pellucid.saved_runs.requirements import refuse_to_predict


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReading:
    """A token, the probability it was given by those before it, and what was expected there.

    `position` counts from 1; begin-of-text stands at 0 and is given, not predicted. The surprisal
    is -log2 p.
    """

    position: int
    token_id: int
    token: str
    probability: float
    surprisal_bits: float
    expected: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A whole sentence, and what is expected to follow it; `notes` are sentences for the reader."""

    sentence: str
    tokens: tuple[TokenReading, ...]
    notes: tuple[str, ...]
    follows: tuple[tuple[str, float], ...]
    guessing_bits: float

    @property
    def bits(self) -> float:
        """-log2 of the probability of the whole sentence: the sum of the surprisals."""
        return sum(token.surprisal_bits for token in self.tokens)


def read_sentence(run: Run, sentence: str, *, expected: int = 3) -> Reading:
    """What `run` predicts before each token of `sentence`, and after the last.

    Raises:
        PellucidError: as `encode_sentence`; or the model predicts no next token.
    """
    model, tokenizer = run.model, run.tokenizer
    refuse_to_predict(model)
    tokenized = encode_sentence(run, sentence)
    ids = tokenized.ids
    read = list(predictions(model, tokenizer, ids, top=expected))
    likeliest = [
        tuple((candidate.token, candidate.probability) for candidate in prediction.likeliest)
        for prediction in read
    ]
    log_probabilities = [prediction.log_p for prediction in read if prediction.log_p is not None]
    return Reading(
        sentence=sentence,
        tokens=tuple(
            TokenReading(
                position=place + 1,
                token_id=token,
                token=tokenizer.token(token),
                probability=math.exp(log_probabilities[place]),
                surprisal_bits=-log_probabilities[place] / math.log(2),
                expected=likeliest[place],
            )
            for place, token in enumerate(ids[1:])
        ),
        notes=tokenized.notes,
        follows=likeliest[-1],
        guessing_bits=math.log2(model.token_embedding.num_embeddings),
    )

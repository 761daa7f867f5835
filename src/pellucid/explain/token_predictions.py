"""One sentence as the model reads it: the likeliest tokens at each place, and the next one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pellucid.explain.sentence import encode_sentence
from pellucid.inference.scoring import predictions, written_token
from pellucid.runs import Run
from pellucid.saved_runs.requirements import refuse_to_predict
from pellucid.saved_runs.token_ids import TokenIds, read_text_of_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReading:
    """A token, its probability given the tokens before it, and the likeliest tokens there.

    `position` counts from 1; the begin-of-text token at 0 is given, not predicted. The surprisal is
    -log2 p.

    Attributes:
        token_id: the id of the token.
        token: its text.
        probability: between 0 and 1.
        surprisal_bits: in bits.
        expected: the likeliest tokens there, with their probabilities.
    """

    position: int
    token_id: int
    token: str
    probability: float
    surprisal_bits: float
    expected: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A sentence, and the likeliest tokens after it; `notes` are sentences for you.

    Attributes:
        sentence: the text.
        tokens: each token with its probability.
        follows: the likeliest next tokens with their probabilities.
        guessing_bits: what an even guess pays for each token.
    """

    sentence: str
    tokens: tuple[TokenReading, ...]
    notes: tuple[str, ...]
    follows: tuple[tuple[str, float], ...]
    guessing_bits: float

    @property
    def bits(self) -> float:
        """-log2 of the probability of the whole sentence: the sum of the surprisals."""
        return sum(token.surprisal_bits for token in self.tokens)


def read_sentence(run: Run, sentence: str | TokenIds, *, expected: int = 3) -> Reading:
    """Read the predictions of a run for each token of a sentence, and after the last.

    Args:
        run: a run whose model predicts next tokens.
        sentence: the text, or its token ids; without a tokenizer, tokens are written as their ids.
        expected: how many of the likeliest tokens to list at each place.

    Raises:
        PellucidError: as `encode_sentence`; or the model predicts no next token.
    """
    model, tokenizer = run.model, run.tokenizer
    refuse_to_predict(model)
    text = sentence if isinstance(sentence, str) else ""
    if isinstance(sentence, str):
        tokenized = encode_sentence(run, sentence)
        ids, notes = tokenized.ids, tokenized.notes
    else:
        ids, notes = read_text_of_ids(sentence, model), ()
    read = list(predictions(model, tokenizer, ids, top=expected))
    likeliest = [
        tuple((candidate.token, candidate.probability) for candidate in prediction.likeliest)
        for prediction in read
    ]
    log_probabilities = [prediction.log_p for prediction in read if prediction.log_p is not None]
    return Reading(
        sentence=text,
        tokens=tuple(
            TokenReading(
                position=place + 1,
                token_id=token,
                token=written_token(tokenizer, token),
                probability=math.exp(log_probabilities[place]),
                surprisal_bits=-log_probabilities[place] / math.log(2),
                expected=likeliest[place],
            )
            for place, token in enumerate(ids[1:])
        ),
        notes=notes,
        follows=likeliest[-1],
        guessing_bits=math.log2(model.token_embedding.num_embeddings),
    )

"""The text of one row while its tokens come: in whole characters, up to a stop text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pellucid.generation.sampling import Sampling, first_stop
from pellucid.tokenizers import Tokenizer


class RowText:
    """The text after a prompt so far.

    Attributes:
        text: the text so far; without the stop text once it `stopped`.
        ids: its token ids, without the token that ended it.
        starts: the length of the text before each of `ids`.
        stopped: "end", "stop" or "length"; None before its end.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        sampling: Sampling,
        ends: Collection[int] | None = None,
    ) -> None:
        self.text = ""
        self.ids: list[int] = []
        self.starts: list[int] = []
        self.stopped: str | None = None
        self._emit = text_stream(tokenizer, prompt)
        self._ends = (tokenizer.end_id,) if ends is None else ends
        self._stops, self._max_tokens = sampling.stop, sampling.max_new_tokens
        self._longest_stop = max((len(stop) for stop in sampling.stop), default=1)
        #: how many characters `take` returned
        self.n_returned = 0

    def take(self, token_id: int) -> str:
        """The characters that this token makes certain: none of them can begin a stop text."""
        if token_id in self._ends:
            self.stopped = "end"
            return self._return_up_to(len(self.text))
        self.starts.append(len(self.text))
        self.ids.append(token_id)
        self.text += self._emit(token_id)
        # a stop text may begin in characters of earlier tokens that were not returned
        stop = first_stop(self.text[self.n_returned :], self._stops)
        if stop is not None:
            self.text, self.stopped = self.text[: self.n_returned + stop], "stop"
        elif len(self.ids) == self._max_tokens:
            self.stopped = "length"
        n_pending = 0 if self.stopped else self._longest_stop - 1
        return self._return_up_to(len(self.text) - n_pending)

    def _return_up_to(self, end: int) -> str:
        start = self.n_returned
        self.n_returned = max(start, end)
        return self.text[start : self.n_returned]


def text_stream(tokenizer: Tokenizer, ids: Sequence[int]) -> Callable[[int], str]:
    """A function from each id that follows `ids` to the characters that it completes."""
    emit = tokenizer.stream()
    for token_id in ids:
        emit(token_id)
    return emit

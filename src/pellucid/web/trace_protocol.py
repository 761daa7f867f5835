"""What the page needs of a sentence that a model read: the seam between this room and `explain`.

Comes in: nothing. Goes out: types. They say what is asked, not how it is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from pellucid.explain.chapter_types import Chapter, Place
from pellucid.explain.trace_types import Progress
from pellucid.runs import Run
from pellucid.web.requests import Scale


class Attention(NamedTuple):
    """A stack's attention: to its own text, or, where it `crosses`, to an encoder's."""

    stack: str
    crosses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A chapter before it is opened."""

    id: str
    number: int
    part: str
    title: str
    #: takes the way back through all layers
    walks: bool = False
    #: a file holds it at one place alone
    once: bool = False
    #: what of a place it is about, where that cannot be seen from a few places
    axes: tuple[str, ...] = ()


class SentenceTrace(Protocol):
    """One sentence, read."""

    @property
    def pieces(self) -> Sequence[str]:
        """The tokens as text, the special ones by their name."""
        ...

    @property
    def ids(self) -> Sequence[int]:
        """The tokens' ids."""
        ...

    @property
    def heads(self) -> Mapping[Attention, Sequence[int]]:
        """How many heads each layer has, by attention; 0 where one has no weights to show."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What has to be said of how the sentence is read."""
        ...

    @property
    def spare(self) -> Sequence[str]:
        """The pieces of the encoder's text, where there is another one; else those above."""
        ...

    def weights(self, attention: Attention, layer: int) -> Tensor | None:
        """(heads, queries, keys) after the softmax; None where there are none."""
        ...

    def norms(self, stack: str) -> Tensor:
        """(layers + 1, tokens): the length of the residual stream before each layer and at last."""
        ...

    def surprisals(self) -> Sequence[float | None]:
        """-log2 p of each token given those before it; None where none was predicted."""
        ...

    def logits(self, token: int) -> Tensor | None:
        """(vocabulary,) at a token; None of a model without a language head."""
        ...

    def lens(self, token: int) -> Tensor | None:
        """(layers + 1, vocabulary): the logits if the model ended after each layer."""
        ...

    def text_of(self, token_id: int) -> str:
        """A token of the vocabulary as text."""
        ...

    @property
    def has_loss(self) -> bool:
        """Whether there is a loss to go back from."""
        ...

    @property
    def large(self) -> bool:
        """Whether going back takes more than a moment."""
        ...

    @property
    def has_gradients(self) -> bool:
        """Whether that was done already."""
        ...

    def go_back(self, progress: Progress) -> None:
        """Run the backward pass; `progress` is called with segments done, and their number."""
        ...

    def gradients(self, stack: str) -> Sequence[float]:
        """The lengths of what reaches the stream before each layer and at last."""
        ...

    def parameters(self) -> Mapping[str, Sequence[int]]:
        """Shapes of all weights with a gradient, by name."""
        ...

    def beside(self, token: int, other: SentenceTrace) -> int | str:
        """The place in `other` that belongs to a token; or why no probability is compared."""
        ...

    def contents(self) -> Sequence[Heading]:
        """The chapters that this model has."""
        ...

    def chapter(self, name: str, place: Place) -> Chapter:
        """One chapter at a place."""
        ...


class Opener(Protocol):
    """Reads a sentence: a trace, as the page needs it."""

    def __call__(
        self, run: Run, sentence: str, scales: Sequence[Scale], versus: SentenceTrace | None
    ) -> SentenceTrace:
        """What `run` makes of `sentence`, its heads scaled; compared with `versus` where given."""
        ...

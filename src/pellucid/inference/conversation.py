"""A conversation with a run, turn by turn; with a base model, one completion after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from pellucid.errors import PellucidError
from pellucid.generation import RowText, Sampling, continue_ids
from pellucid.inference.chat import Chat, Message, end_ids, has_chat_template
from pellucid.saved_runs.inference_memory import check_written
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import refuse_to_predict

#: Why an answer stopped: its end, a length, the end of the context, or you.
Stopped = Literal["end", "length", "context", "you"]
#: The part of the context that stays free for an answer, if its length is not smaller.
_ROOM_SHARE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer, and what the model read before it.

    Attributes:
        ids: the tokens of the prompt and of the answer.
        n_prompt: how many of them are the prompt.
        text: the answer.
        stopped: why it stopped.
        n_dropped: how many of the oldest messages the model did not see.
    """

    ids: tuple[int, ...]
    n_prompt: int
    text: str
    stopped: Stopped
    n_dropped: int = 0


@dataclass(slots=True)
class Conversation:
    """Messages and answers of one run.

    Attributes:
        run: the run.
        sampling: how to choose tokens; each answer draws from another seed.
        system: the system message; empty for none.
        messages: all turns so far, without the system message.
        turn: the last answer.
        force: answer even if pellucid expects to need more memory than is free.
        chat: the template and the end tokens; None for a model without a template.

    Raises:
        PellucidError: the model does not continue texts, or has no tokenizer.
    """

    run: Run
    sampling: Sampling
    system: str = ""
    messages: list[Message] = field(default_factory=list)
    turn: Turn | None = None
    force: bool = False
    chat: Chat | None = field(init=False)

    def __post_init__(self) -> None:
        is_base = not has_chat_template(self.run.folder)
        self.chat = None if is_base else Chat(self.run)
        refuse_to_predict(self.run.model)
        self.run.require_tokenizer()

    def reset(self) -> None:
        """Forget all turns."""
        self.messages, self.turn = [], None

    def close(self) -> None:
        """End the process that renders the template."""
        if self.chat is not None:
            self.chat.close()

    def send(self, text: str, *, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[str]:
        """The answer to a message, in pieces; afterwards it is the last `turn`.

        Args:
            text: the message; for a base model, the text to continue.
            is_stopped: asked before each token whether to stop.

        Raises:
            PellucidError: the message fills the context, or the template refuses it; then the
                conversation is as it was. Raised by the call itself.
        """
        tokenizer, context = self.run.require_tokenizer(), self.run.model.context_length
        ids, n_dropped = self._prompt(text)
        max_new_tokens = min(self.sampling.max_new_tokens, context - len(ids))
        check_written(self.run, 1, len(ids), self.sampling, force=self.force)
        sampling = replace(self.sampling, max_new_tokens=max_new_tokens)
        ends = end_ids(self.run) if self.chat is None else self.chat.ends
        row = RowText(tokenizer, ids, sampling, ends)
        return self._answer(text, ids, n_dropped, row, sampling, is_stopped)

    def _prompt(self, text: str) -> tuple[list[int], int]:
        """The tokens before the answer, and how many messages they leave out."""
        context = self.run.model.context_length
        if self.chat is None:
            ids = self.run.require_tokenizer().encode_prompt(text, name="text")
            if len(ids) >= context:
                raise PellucidError(
                    f"the text has {len(ids):,} tokens, and the context of {context:,} has no room "
                    "to continue it: shorten it"
                )
            return ids, 0
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, *self.messages, {"role": "user", "content": text}]
        room = min(self.sampling.max_new_tokens, max(1, context // _ROOM_SHARE))
        prompt = self.chat.fit(messages, room=room)
        return prompt.ids, prompt.n_dropped

    def _answer(
        self,
        text: str,
        ids: list[int],
        n_dropped: int,
        row: RowText,
        sampling: Sampling,
        is_stopped: Callable[[], bool],
    ) -> Iterator[str]:
        try:
            for (token_id,) in continue_ids(self.run.model, [ids], sampling):
                if is_stopped():
                    break
                if piece := row.take(token_id):
                    yield piece
                if row.stopped:
                    break
        finally:  # a part of an answer is a turn too
            self._keep(text, ids, n_dropped, row, sampling)

    def _keep(
        self, text: str, ids: list[int], n_dropped: int, row: RowText, sampling: Sampling
    ) -> None:
        stopped: Stopped = "you"
        if row.stopped == "length":
            is_full = sampling.max_new_tokens < self.sampling.max_new_tokens
            stopped = "context" if is_full else "length"
        elif row.stopped:
            stopped = "end"
        self.turn = Turn(
            ids=(*ids, *row.ids),
            n_prompt=len(ids),
            text=row.text,
            stopped=stopped,
            n_dropped=n_dropped,
        )
        if self.chat is not None:
            self.messages += [
                {"role": "user", "content": text},
                {"role": "assistant", "content": row.text},
            ]
        self.sampling = replace(self.sampling, seed=(self.sampling.seed + 1) % 2**63)

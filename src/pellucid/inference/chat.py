"""Talk with a run: by the template of its tuning, up to the tokens that end a turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pellucid.data import ChatTemplate, template_for
from pellucid.errors import PellucidError, TextError
from pellucid.generation import Continuation, Sampling, generate_after
from pellucid.reader import parse_json_table, read_json_table
from pellucid.saved_runs.inference_memory import check_writing
from pellucid.saved_runs.load import Run
from pellucid.saved_runs.requirements import kind_of
from pellucid.tokenizers import Tokenizer

#: By default you get the model's likeliest answer, the same each time.
GREEDY = Sampling(temperature=0.0)
#: A word that a template passes on, so that its place in a rendered chat can be found.
_PROBE = "pellucid"

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """The tokens before an answer, and how many of the oldest messages they leave out.

    Attributes:
        ids: the token ids.
        n_dropped: messages that the context had no room for.
    """

    ids: list[int]
    n_dropped: int


class Chat:
    """Conversations with one run; several threads may use it.

    Raises:
        PellucidError: the model is no decoder, or it has no tokenizer.
    """

    def __init__(self, run: Run) -> None:
        kind = kind_of(run.model)
        if kind != "decoder":
            raise PellucidError(
                f"this model is an {kind}, and answers no prompts: an encoder-decoder translates "
                "with pellucid translate, an encoder names classes with pellucid classify"
            )
        self._run, self._tokenizer = run, run.require_tokenizer()
        self._template = ChatTemplate(template_for(None, run.folder), self._tokenizer)
        self._lock = threading.Lock()
        self._ends: frozenset[int] | None = None

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer."""
        with self._lock:
            if self._ends is None:
                self._ends = end_ids(self._run) | _turn_ends(self._template, self._tokenizer)
            return self._ends

    def tokens(self, messages: Sequence[Message], *, name: str = "the chat") -> list[int]:
        """As `prompt`, however long they are."""
        with self._lock:
            return self._template.prompt(name, messages)

    def prompt(self, messages: Sequence[Message], *, name: str = "the chat") -> list[int]:
        """The tokens before the answer to these messages.

        Args:
            messages: each has a `role` and a `content`.
            name: what errors call them.

        Raises:
            TextError: the template refuses them.
            PellucidError: they leave no room for an answer.
        """
        ids = self.tokens(messages, name=name)
        context = self._run.model.context_length
        if len(ids) >= context:
            raise PellucidError(
                f"{name} has {len(ids):,} tokens with its template, and the context of "
                f"{context:,} has no room for an answer: shorten it"
            )
        return ids

    def fit(self, messages: Sequence[Message], *, room: int) -> ChatPrompt:
        """As `prompt`, without the oldest turns if they leave less than `room` for the answer.

        A system message stays, and so does the last message. If the last message alone leaves less
        room, it gets the rest.

        Raises:
            TextError: the template refuses the messages.
            PellucidError: the last message alone fills the context.
        """
        n_system = int(messages[0]["role"] == "system")
        system, turns = messages[:n_system], messages[n_system:]
        longest = self._run.model.context_length - room
        # a turn is the message of the user with its answer
        for n_dropped in range(0, len(turns), 2):
            ids = self.tokens([*system, *turns[n_dropped:]])
            if len(ids) <= longest:
                return ChatPrompt(ids, n_dropped)
        last = turns[-1:]
        return ChatPrompt(self.prompt([*system, *last], name="your message"), len(turns) - 1)

    def close(self) -> None:
        """End the process that renders the template."""
        self._template.close()


def has_chat_template(folder: Path) -> bool:
    """Whether a run or a published model comes with a chat template: if not, it is a base model.

    Every run that was tuned on chats keeps its template.

    Raises:
        TextError: its settings cannot be read.
    """
    return template_for(None, folder) != template_for(None, None)


def end_ids(run: Run) -> frozenset[int]:
    """The tokens that end a text: the tokenizer's, and those that a published model names.

    Raises:
        TextError: a file of the model cannot be read.
    """
    ids = {run.require_tokenizer().end_id}
    for name in ("generation_config.json", "config.json"):
        if (file := run.folder / name).is_file():
            value = read_json_table(file, refusal=TextError).get("eos_token_id")
            values = cast("list[object]", value) if isinstance(value, list) else [value]
            ids |= {token_id for token_id in values if type(token_id) is int}
    return frozenset(ids)


def _turn_ends(template: ChatTemplate, tokenizer: Tokenizer) -> set[int]:
    """The special token that the template writes after an answer, if it writes one."""
    chat = [{"role": "user", "content": _PROBE}, {"role": "assistant", "content": _PROBE}]
    try:
        tokens = template.conversation("a chat of two messages", chat)
    except TextError:  # a template that needs other messages; the end token remains
        return set()
    added = parse_json_table(tokenizer.to_json(), "the tokenizer")["added_tokens"]
    special = {token["id"] for token in added if token["special"]}
    answer = tokens.ids[tokens.last_answer :]
    lengths = range(1, len(answer) + 1)
    first = next((n for n in lengths if _PROBE in tokenizer.decode(answer[:n]).lower()), 0)
    return set([token_id for token_id in answer[first:] if token_id in special][:1])


def answer(
    run: Run,
    prompts: str | Sequence[str],
    sampling: Sampling = GREEDY,
    *,
    when_outgrown: Callable[[], None] | None = None,
    force: bool = False,
) -> list[Continuation]:
    """The answer of a run to each prompt; prompts do not see each other.

    Args:
        run: the run.
        prompts: one prompt, or several.
        sampling: how to choose tokens; by default always the likeliest.
        when_outgrown: called once, when a text first outgrows the model's context.
        force: answer even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: a number in `sampling` is out of range.
        PellucidError: the model is no decoder, or a prompt fills its context.
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    with closing(Chat(run)) as chat:
        check_writing(run, texts, sampling, force=force)
        ids = [
            chat.prompt([{"role": "user", "content": text}], name=f"prompt {place}")
            for place, text in enumerate(texts, start=1)
        ]
        return generate_after(
            run.model,
            run.require_tokenizer(),
            ids,
            sampling,
            ends=chat.ends,
            when_outgrown=when_outgrown,
        )

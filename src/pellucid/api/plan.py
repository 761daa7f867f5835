"""What a request asks of its model: the tokens of each prompt, and the jobs for the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pellucid.api.jobs import Event, Job
from pellucid.api.models import OpenModel
from pellucid.api.refusals import ApiError
from pellucid.api.requests import ApiRequest
from pellucid.errors import PellucidError
from pellucid.tokenizers import Framing

#: OpenAI's default length of a completion.
_COMPLETION_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: its tokens, its text for an echo, and the tokens that an encoder reads."""

    ids: Sequence[int]
    text: str
    source: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The prompts of a request, and how many tokens it may write after each."""

    request: ApiRequest
    model: OpenModel
    prompts: Sequence[Prompt]
    room: Sequence[int]

    @property
    def scores(self) -> bool:
        """Whether each prompt is scored: an echo with log P also has the log P of the prompt."""
        return self.request.echo and self.request.likeliest is not None

    def jobs(self, emit: Callable[[int, Event], None]) -> list[Job]:
        """A job for each choice of each prompt, in order; `emit` gets the number of the choice."""
        request, jobs = self.request, list[Job]()
        for prompt, room in zip(self.prompts, self.room, strict=True):
            for choice in range(request.n):
                jobs.append(
                    Job(
                        prompt=prompt.ids,
                        source=prompt.source,
                        sampling=replace(request.sampling, max_new_tokens=max(room, 1)),
                        writes=room > 0,
                        ends=self._ends(),
                        choice=choice,
                        logit_bias=request.logit_bias,
                        likeliest=request.likeliest or 0,
                        scores=self.scores,
                        emit=_numbered(emit, len(jobs)),
                    )
                )
        return jobs

    def _ends(self) -> frozenset[int]:
        chat = self.model.chat if self.request.endpoint == "chat" else None
        return self.model.ends if chat is None else chat.ends


def _numbered(emit: Callable[[int, Event], None], number: int) -> Callable[[Event], None]:
    return lambda event: emit(number, event)


def make_plan(request: ApiRequest, model: OpenModel) -> Plan:
    """The plan of a request.

    Raises:
        ApiError: a prompt is empty or too long, a token does not exist, the model has no chats, or
            memory is too small.
    """
    _check_ids(request.logit_bias, model, "logit_bias")
    prompts = (
        _chat_prompts(request, model) if request.endpoint == "chat" else _texts(request, model)
    )
    room = [_room(request, prompt, model) for prompt in prompts]
    longest = max(len(prompt.source or prompt.ids) for prompt in prompts)
    model.check_memory(len(prompts) * request.n, longest, max(1, *room))
    return Plan(request, model, prompts, room)


def _texts(request: ApiRequest, model: OpenModel) -> list[Prompt]:
    if model.has_encoder and request.echo:
        raise ApiError(
            "this model writes a new text from the prompt, which is not a part of it: leave echo "
            "out",
            param="echo",
        )
    return [_prompt(prompt, model) for prompt in request.prompts]


def _prompt(prompt: str | tuple[int, ...], model: OpenModel) -> Prompt:
    tokenizer = model.tokenizer
    try:
        if not isinstance(prompt, str):
            _check_ids(prompt, model, "prompt")
            ids, text = list(prompt), tokenizer.decode(prompt)
        elif model.has_encoder:
            ids, text = Framing(tokenizer).ids_of(prompt), prompt
        else:
            ids, text = tokenizer.encode_prompt(prompt), prompt
    except ApiError:
        raise
    except PellucidError as error:
        raise ApiError(str(error), param="prompt") from None
    return Prompt([tokenizer.begin_id], text, ids) if model.has_encoder else Prompt(ids, text)


def _check_ids(ids: Sequence[int] | Mapping[int, float], model: OpenModel, name: str) -> None:
    n = model.run.model.head_weight.shape[0]
    wrong = next((token_id for token_id in ids if not 0 <= token_id < n), None)
    if wrong is not None:
        raise ApiError(
            f"{name} has the token {wrong}, but the model's tokens go from 0 to {n - 1:,}",
            param=name,
        )


def _chat_prompts(request: ApiRequest, model: OpenModel) -> list[Prompt]:
    if model.chat is None:
        kind = "an encoder-decoder" if model.has_encoder else "a base model"
        raise ApiError(
            f"the model {request.model} is {kind}: it has no chat template and holds no "
            "conversation; send a prompt to /v1/completions, which it continues",
            param="model",
            code="no_chat_template",
        )
    try:
        ids = model.chat.tokens(request.messages)
    except PellucidError as error:
        raise ApiError(str(error), param="messages") from None
    return [Prompt(ids, "")]


def _room(request: ApiRequest, prompt: Prompt, model: OpenModel) -> int:
    """How many tokens to write after a prompt: all that are asked for fit into the context."""
    context, max_tokens = model.context_length, request.max_tokens
    is_chat = request.endpoint == "chat"
    least = int(is_chat) if max_tokens is None else max_tokens
    for ids in (prompt.ids, prompt.source or ()):
        n_needed = len(ids) + (least if ids is prompt.ids else 0)
        if n_needed > context:
            raise ApiError(
                f"this model's context holds {context:,} tokens, and the request needs "
                f"{n_needed:,}: {len(ids):,} of the prompt and {n_needed - len(ids):,} to write; "
                "shorten the prompt or lower max_tokens",
                param="messages" if is_chat else "prompt",
                code="context_length_exceeded",
            )
    left = context - len(prompt.ids)
    if max_tokens is None:
        max_tokens = left if is_chat else min(_COMPLETION_TOKENS, left)
    return max_tokens

"""Requests of the API: frozen values, made from unchecked JSON.

The names are OpenAI's. `top_k`, `min_p`, `repetition_penalty` and `return_token_ids` are common
additions. Parameters that would change the text and that pellucid does not have are refused; a
neutral value of them is accepted.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from pellucid.api.fields import Fields, is_integer, is_number
from pellucid.api.refusals import ApiError
from pellucid.generation import Sampling
from pellucid.reader import short

#: The most choices of a request, prompts of one, stop texts, likeliest tokens and biases.
MOST_CHOICES, MOST_PROMPTS, MOST_STOPS, MOST_LIKELIEST, MOST_BIASES = 128, 256, 16, 20, 1024
_LONGEST_STOP = 1000

Endpoint = Literal["completion", "chat"]

#: Parameters without an effect here, and the values that they may have.
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "store": (False,),
    "service_tier": ("auto", "default"),
    "parallel_tool_calls": (True, False),
}
#: Parameters that say nothing about the text.
_IGNORED = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key"})
_SHARED = frozenset(
    [
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "seed",
        "n",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
        "logit_bias",
        "return_token_ids",
    ]
)
_COMPLETION = _SHARED | {"prompt", "echo", "best_of"}
_CHAT = _SHARED | {"messages", "max_completion_tokens", "top_logprobs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request.

    Attributes:
        endpoint: which of the two it is for.
        model: the name of the model.
        prompts: of a completion: texts, or lists of token ids.
        messages: of a chat.
        sampling: how to sample; its `max_new_tokens` is at least 1.
        max_tokens: the most tokens; None for the endpoint's default, 0 to write none.
        n: how many choices for each prompt.
        likeliest: how many of the likeliest tokens to return with each token; None for no log P.
        logit_bias: the numbers that are added to the logits of some tokens.
        echo: whether the prompt comes with the text.
        stream: whether to send events.
        usage: whether a stream ends with its usage.
        token_ids: whether to return token ids.
    """

    endpoint: Endpoint
    model: str
    prompts: tuple[str | tuple[int, ...], ...] = ()
    messages: tuple[Mapping[str, Any], ...] = ()
    sampling: Sampling
    max_tokens: int | None
    n: int
    likeliest: int | None
    logit_bias: Mapping[int, float]
    echo: bool = False
    stream: bool
    usage: bool
    token_ids: bool


def parse_completion(value: object) -> ApiRequest:
    """The request of a completion.

    Raises:
        ApiError: a parameter is wrong or not supported; names it.
    """
    fields = Fields(value)
    shared = _shared(fields, _COMPLETION)
    n = shared["n"]
    if fields.integer("best_of", n, minimum=1) != n:
        raise fields.refusal("best_of", "is not supported: leave it out")
    return ApiRequest(
        endpoint="completion",
        prompts=_prompts(fields),
        max_tokens=fields.integer("max_tokens", None, minimum=0),
        likeliest=fields.integer("logprobs", None, minimum=0, maximum=MOST_LIKELIEST),
        echo=fields.truth("echo"),
        **shared,
    )


def parse_chat(value: object) -> ApiRequest:
    """The request of a chat.

    Raises:
        ApiError: a parameter is wrong or not supported; names it.
    """
    fields = Fields(value)
    shared = _shared(fields, _CHAT)
    max_tokens = fields.integer("max_completion_tokens", None, minimum=1)
    wants_log_p = fields.truth("logprobs")
    likeliest = fields.integer("top_logprobs", None, minimum=0, maximum=MOST_LIKELIEST)
    if likeliest is not None and not wants_log_p:
        raise fields.refusal("top_logprobs", "needs logprobs: set it to true")
    return ApiRequest(
        endpoint="chat",
        messages=_messages(fields.get("messages")),
        max_tokens=fields.integer("max_tokens", None, minimum=1)
        if max_tokens is None
        else max_tokens,
        likeliest=(likeliest or 0) if wants_log_p else None,
        **shared,
    )


def _shared(fields: Fields, names: frozenset[str]) -> dict[str, Any]:
    """The parameters of both endpoints."""
    fields.refuse_unknown(names.union(_NEUTRAL, _IGNORED))
    for key, neutral in _NEUTRAL.items():
        value = fields.get(key)
        if value is not None and value not in neutral:
            raise fields.refusal(key, "is not supported: leave it out", "unsupported_parameter")
    stream, options = fields.truth("stream"), fields.get("stream_options")
    if options is not None and not stream:
        raise fields.refusal("stream_options", "needs stream: set it to true")
    return {
        "model": fields.text("model"),
        "sampling": _sampling(fields),
        "n": fields.integer("n", 1, minimum=1, maximum=MOST_CHOICES),
        "logit_bias": _biases(fields.get("logit_bias")),
        "stream": stream,
        "usage": options is not None and Fields(options, "stream_options").truth("include_usage"),
        "token_ids": fields.truth("return_token_ids"),
    }


def _sampling(fields: Fields) -> Sampling:
    seed = fields.integer("seed", None, minimum=-(2**63), maximum=2**63 - 1)
    top_p = fields.number("top_p", 1.0, minimum=0.0, maximum=1.0)
    min_p = fields.number("min_p", 0.0, minimum=0.0, maximum=1.0)
    top_k = fields.integer("top_k", -1, minimum=-1)
    return Sampling(
        temperature=fields.number("temperature", 1.0, minimum=0.0, maximum=2.0),
        # 0 keeps the likeliest token alone
        top_p=None if top_p == 1 else max(top_p, 1e-9),
        min_p=min_p or None,
        top_k=top_k if top_k is not None and top_k > 0 else None,
        repetition_penalty=fields.number("repetition_penalty", 1.0, minimum=0.01, maximum=100.0),
        # without a seed, each request draws other numbers
        seed=secrets.randbelow(2**63) if seed is None else seed % 2**63,
        stop=_stops(fields),
    )


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.get("stop")
    if value is None:
        return ()
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = tuple(text for text in values if isinstance(text, str) and text)
    if len(texts) != len(values) or len(texts) > MOST_STOPS:
        raise fields.wrong("stop", f"a text or a list of at most {MOST_STOPS} texts, none empty")
    if any(len(text) > _LONGEST_STOP for text in texts):
        raise fields.refusal("stop", f"has more than {_LONGEST_STOP:,} characters: shorten it")
    return texts


def _biases(value: object) -> dict[int, float]:
    if value is None:
        return {}
    table = Fields(value, "logit_bias").table
    if len(table) > MOST_BIASES:
        raise ApiError(f"logit_bias has more than {MOST_BIASES:,} tokens", param="logit_bias")
    biases: dict[int, float] = {}
    for key, bias in table.items():
        is_id = key.isascii() and key.isdigit() and len(key) < 10
        if not is_id or not is_number(bias) or not -100 <= bias <= 100:
            raise ApiError(
                f"logit_bias must have token ids with numbers from -100 to 100, was "
                f"{short({key: bias})}",
                param="logit_bias",
            )
        biases[int(key)] = float(bias)
    return biases


def _prompts(fields: Fields) -> tuple[str | tuple[int, ...], ...]:
    """One text, a list of texts, token ids, or a list of lists of token ids."""
    value = fields.get("prompt")
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    if values and all(is_integer(token_id) for token_id in values):
        values = [values]
    prompts = tuple(_prompt(prompt) for prompt in values)
    if not prompts or len(prompts) > MOST_PROMPTS or None in prompts:
        raise fields.wrong(
            "prompt", f"a text, a list of token ids, or a list of at most {MOST_PROMPTS} of them"
        )
    return cast("tuple[str | tuple[int, ...], ...]", prompts)


def _prompt(value: object) -> str | tuple[int, ...] | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    ids = cast("list[object]", value)
    token_ids = tuple(token_id for token_id in ids if is_integer(token_id))
    return token_ids if token_ids and len(token_ids) == len(ids) else None


def _messages(value: object) -> tuple[Mapping[str, Any], ...]:
    description = short(value)
    items = cast("list[object]", value) if isinstance(value, list) else []
    if not items:
        raise ApiError(
            f"messages must be a list of at least one message, was {description}", param="messages"
        )
    return tuple(_message(item, f"messages[{n}]") for n, item in enumerate(items))


def _message(value: object, name: str) -> Mapping[str, Any]:
    """A message with a role and a text; parts of text are joined."""
    fields = Fields(value, name)
    fields.refuse_unknown(frozenset({"role", "content", "name"}))
    role = fields.text("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise fields.wrong("role", "system, user or assistant")
    content = fields.get("content")
    if isinstance(content, list):
        parts = [Fields(part, f"{name}.content") for part in cast("list[object]", content)]
        for part in parts:
            if part.get("type") != "text":
                raise part.wrong("type", "text: pellucid reads no images and no sound")
        content = "".join(part.text("text") for part in parts)
    if not isinstance(content, str):
        raise fields.wrong("content", "a text")
    return {"role": "system" if role == "developer" else role, "content": content}

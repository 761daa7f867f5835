"""The bodies of responses, whole and as the chunks of a stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from pellucid.api.choices import Choice, Delta, TokenSpeller
from pellucid.api.plan import Plan
from pellucid.version import __version__

Json = dict[str, Any]
_OBJECTS = {
    "completion": ("text_completion", "text_completion"),
    "chat": ("chat.completion", "chat.completion.chunk"),
}


class Answer:
    """The response to one request: its choices, and their JSON."""

    def __init__(self, plan: Plan) -> None:
        request = plan.request
        self.is_chat = request.endpoint == "chat"
        self._plan, self._request = plan, request
        self._speller = TokenSpeller(plan.model.tokenizer)
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        self._head: Json = {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": request.model,
            "system_fingerprint": f"pellucid-{__version__}",
        }
        self._whole_object, self._chunk_object = _OBJECTS[request.endpoint]
        #: numbers of the choices that have a chunk
        self._started: set[int] = set()
        self.choices = self._make_choices()

    def _make_choices(self) -> list[Choice]:
        request, choices = self._request, list[Choice]()
        for prompt, room in zip(self._plan.prompts, self._plan.room, strict=True):
            starts = self._speller.starts_of(prompt.ids) if self._plan.scores else ()
            for _ in range(request.n):
                choices.append(
                    Choice(
                        len(choices), prompt, echoes=request.echo, writes=room > 0, starts=starts
                    )
                )
        return choices

    def body(self, deltas: Sequence[Sequence[Delta]]) -> Json:
        """The whole response, from the pieces of each choice."""
        pairs = zip(self.choices, deltas, strict=True)
        response: Json = self._head | {
            "object": self._whole_object,
            "choices": [self._whole_choice(choice, pieces) for choice, pieces in pairs],
            "usage": self.usage(),
        }
        if self.is_chat and self._request.token_ids:
            response["prompt_token_ids"] = list(self._plan.prompts[0].ids)
        return response

    def _whole_choice(self, choice: Choice, pieces: Sequence[Delta]) -> Json:
        text = "".join(piece.text for piece in pieces)
        tokens = [token for piece in pieces for token in piece.tokens]
        joined = Delta(text, tokens, choice.finish)
        message = {"message": {"role": "assistant", "content": text, "refusal": None}}
        return self._fields(choice, joined, message if self.is_chat else {"text": text})

    def first_chunk(self, choice: Choice) -> Json:
        """The first chunk of a choice of a chat, which has the role."""
        chunk = self._of_chunk(choice, Delta("", (), None), {"role": "assistant", "content": ""})
        if self._request.token_ids:
            chunk["prompt_token_ids"] = list(choice.prompt.ids)
        return chunk

    def chunk(self, choice: Choice, delta: Delta) -> Json:
        """A further piece of a choice."""
        return self._of_chunk(choice, delta, {"content": delta.text} if delta.text else {})

    def _of_chunk(self, choice: Choice, delta: Delta, message: Json) -> Json:
        text = {"delta": message} if self.is_chat else {"text": delta.text}
        body = self._head | {
            "object": self._chunk_object,
            "choices": [self._fields(choice, delta, text)],
        }
        return body | {"usage": None} if self._request.usage else body

    def usage_chunk(self) -> Json:
        """The last chunk, if the request asks for the usage."""
        return self._head | {"object": self._chunk_object, "choices": [], "usage": self.usage()}

    def usage(self) -> Json:
        """The tokens read and written, those that ended a text included."""
        prompt = sum(len(prompt.source or prompt.ids) for prompt in self._plan.prompts)
        completion = sum(choice.n_written for choice in self.choices)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _fields(self, choice: Choice, delta: Delta, text: Json) -> Json:
        request, log_p = self._request, None
        if request.likeliest is not None:
            speller = self._speller
            spell = speller.for_chat if self.is_chat else speller.for_completion
            log_p = spell(delta.tokens)
        fields: Json = {"index": choice.number, **text, "logprobs": log_p}
        fields["finish_reason"] = delta.finish
        if request.token_ids:
            fields["token_ids"] = [token.token_id for token in delta.tokens]
            if not self.is_chat and choice.number not in self._started:
                fields["prompt_token_ids"] = list(choice.prompt.ids)
            self._started.add(choice.number)
        return fields

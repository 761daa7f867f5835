"""Sampling the answer to a prompt of the data while a model learns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from pellucid.data import ChatTemplate, template_for
from pellucid.errors import TextError
from pellucid.inference.sample import sample_after
from pellucid.tasks.task import TaskInputs
from pellucid.training import Sampled

#: A message that marks the user's place in a template.
_WORD = "PELLUCID"


class PromptSampler:
    """Samples answers, and shows prompts without the text that the run's template adds."""

    def __init__(self, inputs: TaskInputs) -> None:
        self._model, self._tokenizer = inputs.model, inputs.tokenizer
        self._prefix, self._suffix = _template_ends(inputs)

    def sample(self, prompt: Sequence[int], step: int) -> Sampled:
        """The model's answer to a prompt."""
        sentence = self._show_prompt(prompt)
        return sample_after(self._model, self._tokenizer, prompt, sentence, step)

    def _show_prompt(self, prompt: Sequence[int]) -> str:
        """The user's message; if the chat has several, all of its text with the template's."""
        text = self._tokenizer.decode(prompt)
        if not (text.startswith(self._prefix) and text.endswith(self._suffix)):
            return text
        message = text[len(self._prefix) : len(text) - len(self._suffix)]
        # a chat of several turns has the same beginning and end as one of a single turn
        marks = [mark.strip() for mark in (self._prefix, self._suffix) if mark.strip()]
        return text if any(mark in message for mark in marks) else message


def _template_ends(inputs: TaskInputs) -> tuple[str, str]:
    """The text that the run's template puts before and after a single message."""
    template = template_for(None, inputs.folder.path)
    try:
        with closing(ChatTemplate(template, inputs.tokenizer)) as chat:
            ids = chat.prompt("a prompt", [{"role": "user", "content": _WORD}])
    except TextError:  # a template that needs more than a message of the user
        return "", ""
    prefix, word, suffix = inputs.tokenizer.decode(ids).partition(_WORD)
    return (prefix, suffix) if word else ("", "")

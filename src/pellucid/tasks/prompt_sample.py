"""A prompt of the data put to the model as it learns, and shown in the user's own words.

Comes in: a prompt's ids. Goes out: how the model answers. It does not know how it is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from pellucid.data import ChatTemplate, template_for
from pellucid.errors import TextError
from pellucid.inference.sample import speak_after
from pellucid.tasks.task import TaskInputs
from pellucid.training import Sampled

#: A word that stands for what a user says; a template that cuts it up is not taken off again.
_WORD = "PELLUCID"


class Asking:
    """Knows what the template of a run puts around a prompt of one message."""

    def __init__(self, given: TaskInputs) -> None:
        self._model, self._tokenizer = given.model, given.tokenizer
        self._before, self._behind = _around(given)

    def answered(self, prompt: Sequence[int], step: int) -> Sampled:
        """How the model answers a prompt."""
        sentence = self.words(prompt)
        return speak_after(self._model, self._tokenizer, prompt, sentence, step)

    def words(self, prompt: Sequence[int]) -> str:
        """What the user said; of a longer chat, the whole of it as the template has it."""
        text = self._tokenizer.decode(prompt)
        if not (text.startswith(self._before) and text.endswith(self._behind)):
            return text
        message = text[len(self._before) : len(text) - len(self._behind)]
        # a chat of several turns begins and ends as one of a single turn does
        marks = [mark.strip() for mark in (self._before, self._behind) if mark.strip()]
        return text if any(mark in message for mark in marks) else message


def _around(task_inputs: TaskInputs) -> tuple[str, str]:
    template = template_for(None, task_inputs.folder.path)
    try:
        with closing(ChatTemplate(template, task_inputs.tokenizer)) as chat:
            ids = chat.prompt("a prompt", [{"role": "user", "content": _WORD}])
    except TextError:  # one that wants more than a user's message
        return "", ""
    prefix, word, suffix = task_inputs.tokenizer.decode(ids).partition(_WORD)
    return (prefix, suffix) if word else ("", "")

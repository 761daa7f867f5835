"""A run's chat template as `transformers` and llama.cpp use it: it writes begin and end itself.

pellucid puts the begin token in front of a rendered chat, and the end token behind a last answer
that the template does not end. Other programs add nothing, so the exported template has to.
"""

from __future__ import annotations

from contextlib import closing

from pellucid.data import ChatTemplate, Template
from pellucid.data.chat.messages import Messages
from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer

_ASK: Messages = [{"role": "user", "content": "What is this?"}]
_ANSWER: Messages = [*_ASK, {"role": "assistant", "content": "A trial."}]
#: The chats that show what pellucid adds, and whether an answer of the model comes next.
_TRIALS: tuple[tuple[Messages, bool], ...] = (
    (_ASK, True),
    (_ANSWER, False),
    ([*_ANSWER, *_ASK], True),
)
# a comment and its line end leave no trace, and the template still begins at the begin of a line
_BEGIN = "{{ bos_token }}{# the template follows #}\n"
_END = (
    "{% if messages and messages[-1]['role'] == 'assistant' and not add_generation_prompt %}"
    "{{ eos_token }}{% endif %}"
)


def portable_template(template: Template, tokenizer: Tokenizer) -> str:
    """The template with the tokens that pellucid adds; the same text otherwise.

    Raises:
        TextError: the template fails, or its text would change.
    """
    begin, end = tokenizer.token(tokenizer.begin_id), tokenizer.token(tokenizer.end_id)
    with closing(ChatTemplate(template, tokenizer)) as chat:
        texts = [_render(chat, trial) for trial in _TRIALS]
        ids = [chat.conversation("a trial", messages).ids for messages in (_ANSWER,)]
    source = template.source
    needs_begin = not texts[0].startswith(begin)
    if needs_begin:
        source = _BEGIN + source
    needs_end = ids[0][-1] == tokenizer.end_id and not texts[1].endswith(end)
    if needs_end:
        source = source.removesuffix("\n") + _END
    expected = [begin * needs_begin + text for text in texts]
    expected[1] += end * needs_end
    with closing(ChatTemplate(Template(source, template.origin), tokenizer)) as chat:
        if [_render(chat, trial) for trial in _TRIALS] != expected:
            raise TextError(
                f"the chat template ({template.origin}) changes when it gets the tokens that begin "
                "and end a text, so it cannot leave: write them into the template yourself, with "
                "{{ bos_token }} and {{ eos_token }}"
            )
    return source


def _render(chat: ChatTemplate, trial: tuple[Messages, bool]) -> str:
    messages, add_prompt = trial
    return chat.text("a trial", messages, add_prompt=add_prompt)

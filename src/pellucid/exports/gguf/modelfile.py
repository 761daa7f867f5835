"""The `Modelfile` for Ollama: the file, the template of one turn, and how pellucid writes.

Source:
    Ollama, docs/modelfile: FROM, TEMPLATE (a template of Go) and PARAMETER.
"""

from __future__ import annotations

from contextlib import closing

from pellucid.data import ChatTemplate, Template
from pellucid.data.chat.messages import Messages
from pellucid.errors import TextError
from pellucid.generation import Sampling
from pellucid.tokenizers import Tokenizer

MODELFILE = "Modelfile"
_SYSTEM, _PROMPT, _RESPONSE = "{{ .System }}", "{{ .Prompt }}", "{{ .Response }}"


def modelfile(file: str, context_length: int, tokenizer: Tokenizer, template: str | None) -> str:
    """The text of a `Modelfile`.

    Args:
        file: the name of the GGUF file in the same folder.
        context_length: of the file.
        tokenizer: has the names of begin and end.
        template: the chat template; None for a model that continues texts.
    """
    sampling = Sampling()
    temperature = sampling.temperature if template is None else 0.0
    turn = _PROMPT if template is None else one_turn(template, tokenizer)
    lines = [
        f"FROM ./{file}",
        f'TEMPLATE """{turn}"""',
        f"PARAMETER num_ctx {context_length}",
        f"PARAMETER num_predict {sampling.max_new_tokens}",
        f"PARAMETER temperature {temperature}",
        "PARAMETER top_k 0",
        "PARAMETER top_p 1.0",
        "PARAMETER min_p 0.0",
        "PARAMETER repeat_penalty 1.0",
        f'PARAMETER stop "{tokenizer.token(tokenizer.end_id)}"',
    ]
    return "\n".join(lines) + "\n"


def one_turn(template: str, tokenizer: Tokenizer) -> str:
    """A chat template as Ollama's template of one turn, found by rendering its variables.

    Raises:
        TextError: the template treats a message so that no such form shows.
    """
    begin = tokenizer.token(tokenizer.begin_id)
    ask: Messages = [{"role": "user", "content": _PROMPT}]
    with closing(ChatTemplate(Template(template, "the exported template"), tokenizer)) as chat:
        prompt = chat.text("a trial", ask, add_prompt=True).removeprefix(begin)
        answered = [*ask, {"role": "assistant", "content": _RESPONSE}]
        answered_text = chat.text("a trial", answered, add_prompt=False).removeprefix(begin)
        system = _with_system(chat, ask, prompt, begin)
    if not answered_text.startswith(prompt) or _RESPONSE not in answered_text[len(prompt) :]:
        raise TextError(
            "the chat template writes a question otherwise once it is answered, so it has no form "
            "for Ollama: leave --format gguf out, or train with another template"
        )
    return system + prompt + answered_text[len(prompt) :]


def _with_system(chat: ChatTemplate, ask: Messages, prompt: str, begin: str) -> str:
    """The part in front of a question that a message of the system adds, if it adds one there."""
    try:
        messages = [{"role": "system", "content": _SYSTEM}, *ask]
        text = chat.text("a trial", messages, add_prompt=True).removeprefix(begin)
    except TextError:
        return ""
    head = text.removesuffix(prompt)
    if head == text or _SYSTEM not in head:
        return ""
    return f"{{{{ if .System }}}}{head}{{{{ end }}}}"

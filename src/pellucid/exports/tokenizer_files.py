"""A tokenizer as files of `transformers`: `tokenizer.json`, its settings, the chat template."""

from __future__ import annotations

from pathlib import Path

from pellucid import config
from pellucid.data import Template
from pellucid.exports.chat_template import portable_template
from pellucid.reader import read_text
from pellucid.saved_runs.folder import RunFolder
from pellucid.tokenizers import SETTINGS, Tokenizer, settings_for

TOKENIZER, TEMPLATE = "tokenizer.json", "chat_template.jinja"
#: All files that this module writes.
TOKENIZER_FILES = (TOKENIZER, SETTINGS, TEMPLATE)


def template_of(folder: RunFolder, tokenizer: Tokenizer) -> str | None:
    """The chat template of a run, as other programs use it; None if the run learnt no chats.

    Raises:
        TextError: it cannot be read, or fails.
    """
    if not folder.template.is_file():
        return None
    template = Template(read_text(folder.template), str(folder.template))
    return portable_template(template, tokenizer)


def published_tokenizer_json(model: config.Transformer, tokenizer: Tokenizer) -> str:
    """`tokenizer.json` with the frame that `transformers` puts around each text."""
    classifies = isinstance(model.head, config.ClassificationHead)
    # an encoder reads whole texts, which end; so does a decoder that names classes
    reads_whole_texts = model.encoder is not None or classifies
    return tokenizer.to_published_json(
        add_begin=True, add_end=reads_whole_texts and bool(tokenizer.closing)
    )


def write_tokenizer_files(
    place: Path, model: config.Transformer, tokenizer: Tokenizer, template: str | None
) -> None:
    """Write the files of a tokenizer into an existing folder.

    Args:
        place: the folder.
        model: decides the frame of a text, and how long a text may be.
        tokenizer: the tokenizer.
        template: the chat template as `template_of` gives it.
    """
    (place / TOKENIZER).write_text(published_tokenizer_json(model, tokenizer), encoding="utf-8")
    roles = tokenizer.roles()
    if template is not None:  # it names both, whatever else they are called
        ends = {
            "bos_token": tokenizer.token(tokenizer.begin_id),
            "eos_token": tokenizer.token(tokenizer.end_id),
        }
        roles = ends | roles
        (place / TEMPLATE).write_text(template, encoding="utf-8")
    settings = settings_for(roles, context_length=model.context_length)
    (place / SETTINGS).write_text(settings, encoding="utf-8")

"""Every tokenizer of ours as a fast tokenizer of `transformers`: the same ids, also of chats."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pellucid import runs
from pellucid.data import ChatTemplate, Template
from pellucid.data.chat.templates import PLAIN
from pellucid.data.standard_library import standard_library_docs
from pellucid.tokenizers import Tokenizer, train_bytes, with_mask, with_sentinels
from pellucid.tokenizers.train import (
    train_byte_pairs,
    train_characters,
    train_word_pieces,
    train_words,
)
from support.exported import small_preset, untrained
from support.reference import quiet

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]


@cache
def shuffled() -> list[str]:
    """The lines of a corpus: not made where these tests are only collected."""
    lines = [line for document in standard_library_docs() for line in document.text.split("\n")]
    random.Random(0).shuffle(lines)
    return lines


def trained_on() -> list[str]:
    return shuffled()[:4000]


#: Texts with what a tokenizer might lose or join.
ODD = [
    "",
    " ",
    "  two",
    "tab\t",
    "ä e\u0301 日本語 😀",
    " .  , 's n't ",
    "\r",
    "x\u00a0y",
    "[MASK]",
]

TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bytes": train_bytes,
    "byte pairs": lambda: train_byte_pairs(trained_on(), 600),
    "characters": lambda: train_characters(trained_on()),
    "words": lambda: train_words(trained_on(), 2000),
    "word pieces": lambda: train_word_pieces(trained_on(), 900, lowercase=True),
    "cased word pieces": lambda: train_word_pieces(trained_on(), 900, lowercase=False),
    "with a mask": lambda: with_mask(train_byte_pairs(trained_on(), 500)),
    "with sentinels": lambda: with_sentinels(train_bytes()),
}


def fast(place: Path, tokenizer: Tokenizer, template: str | None = None) -> Any:
    """The exported tokenizer, as `transformers` opens it."""
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    model = small_preset("nano", vocab_size=tokenizer.vocab_size, d_model=16)
    untrained(place / "run", model, tokenizer=tokenizer, template=template)
    runs.export_run(place / "run", place / "out")
    opened = transformers.AutoTokenizer.from_pretrained(place / "out")
    assert opened.is_fast
    return opened


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ids_equal_on_ten_thousand_held_out_lines(kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[kind]()
    reference_tokenizer = fast(tmp_path, tokenizer)
    held_out = shuffled()[4000:14_000]
    assert len(held_out) == 10_000
    lines = [*held_out, *ODD]
    ids = reference_tokenizer(lines).input_ids
    for line, reference_ids in zip(lines, ids, strict=True):
        assert reference_ids == tokenizer.encode_prompt(line), line
    for line in lines[::20]:
        inner = tokenizer.encode(line)
        assert reference_tokenizer.decode(inner, skip_special_tokens=True) == tokenizer.decode(
            inner
        )
    assert reference_tokenizer.bos_token_id == tokenizer.begin_id
    assert reference_tokenizer.eos_token_id == tokenizer.end_id
    assert reference_tokenizer.mask_token_id == tokenizer.id_of(
        tokenizer.roles().get("mask_token", "")
    )


#: Templates that write begin and end, one of them, or neither; with odd white space.
TEMPLATES = {
    "plain": PLAIN,
    "both": "{{ bos_token }}{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
    "neither": "{% for m in messages %}\n  {% if true %}[{{ m['role'] }}] {{ m['content'] }}\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}\n",
    "indented": "  {% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}",
}
#: There an answer follows a blank, which pellucid keeps out of the answer's first token.
SPACED = ("both", "neither")
CHATS = [
    [{"role": "user", "content": "What is 1?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Why? "}],
    [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "And now?"},
    ],
]


@pytest.mark.parametrize("kind", ["bytes", "byte pairs", "words"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_has_the_same_ids_there(name: str, kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[kind]()
    reference_tokenizer = fast(tmp_path, tokenizer, TEMPLATES[name])
    chat_template = ChatTemplate(Template(TEMPLATES[name], "a test"), tokenizer)
    for chat in CHATS[:2] if name in SPACED else CHATS:
        reference_ids = reference_tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_dict=False
        )
        assert reference_ids == chat_template.prompt("a chat", chat)
        if name in SPACED:
            continue
        answered = [*chat, {"role": "assistant", "content": "Because."}]
        reference_ids = reference_tokenizer.apply_chat_template(answered, return_dict=False)
        assert reference_ids == chat_template.conversation("a chat", answered).ids
    chat_template.close()

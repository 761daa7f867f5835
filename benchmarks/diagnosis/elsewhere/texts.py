"""The real text that all trainings learn from, and the tokenizer that is trained on it.

Comes in: a folder with public data sets, or none: then the documentation of Python's standard
library, from which labels, translations and preferences are made. Goes out: rows of token ids. It
does not know who learns from them.
"""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from pellucid.data.standard_library import standard_library_docs

VOCAB, LENGTH = 512, 32
#: Paragraphs that are read, characters of each, and the share that is held out.
_PARAGRAPHS, _CHARACTERS, _HELD_OUT = 4_000, 120, 0.1
_SPECIAL = ("<pad>", "<s>", "</s>", "<mask>", "<unk>")
PAD, BOS, EOS, MASK, UNK = range(5)
#: One example: ids of its texts by name, and its class.
Example = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """The examples of a task, and those that only the score is computed from."""

    train: list[Example]
    held_out: list[Example]


@dataclass(frozen=True)
class Texts:
    """Paragraphs, and what else is made of them; `digest` is that of all text."""

    tokenizer: Any
    paragraphs: list[str]
    labelled: list[tuple[str, int]]
    translated: list[tuple[str, str]]
    preferred: list[tuple[str, str, str]]
    digest: str

    def ids(self, text: str, length: int = LENGTH) -> list[int]:
        """Token ids of a text between its two ends, cut to a length."""
        inner = self.tokenizer.encode(text, add_special_tokens=False)[: length - 2]
        return [BOS, *inner, EOS]

    def rows(self, task: str) -> Rows:
        """The examples of a task."""
        made = [row for row in self._examples(task) if row]
        random.Random(0).shuffle(made)
        cut = int(len(made) * (1 - _HELD_OUT))
        return Rows(made[:cut], made[cut:])

    def _examples(self, task: str) -> list[Example]:
        ids, half = self.ids, LENGTH // 2
        match task:
            case "classify":
                return [{"ids": ids(text), "label": label} for text, label in self.labelled]
            case "seq2seq":
                return [{"ids": ids(a), "target": ids(b)[1:]} for a, b in self.translated]
            case "dpo" | "reward" | "sft":
                return [
                    {
                        "prompt": ids(prompt, half)[:-1],
                        "chosen": ids(chosen)[1:],
                        "rejected": ids(rejected)[1:],
                        "text": (prompt, chosen, rejected),
                    }
                    for prompt, chosen, rejected in self.preferred
                    if ids(chosen) != ids(rejected)
                ]
            case "grpo":
                return [{"prompt": ids(text, 8)[:-1], "text": text} for text in self.paragraphs]
            case _:
                return [{"ids": ids(text), "text": text} for text in self.paragraphs]

    def windows(self) -> Rows:
        """Paragraphs one behind the other, cut into windows of equal length."""
        stream = [token for text in self.paragraphs for token in self.ids(text, 10**6)]
        cuts = [stream[at : at + LENGTH] for at in range(0, len(stream) - LENGTH, LENGTH)]
        random.Random(0).shuffle(cuts)
        made = [{"ids": cut} for cut in cuts]
        cut = int(len(made) * (1 - _HELD_OUT))
        return Rows(made[:cut], made[cut:])


@cache
def texts(folder: str | None) -> Texts:
    """All text, from a folder of public data sets as far as they are there."""
    home = Path(folder) if folder else None
    paragraphs = _paragraphs(home)
    parts = (paragraphs, _labelled(home, paragraphs), _translated(home, paragraphs))
    preferred = _preferred(home, paragraphs)
    digest = hashlib.sha256(json.dumps([*parts, preferred]).encode()).hexdigest()
    spoken = [text for part in (*parts[1:], preferred) for row in part for text in row]
    everything = [*paragraphs, *(text for text in spoken if isinstance(text, str))]
    return Texts(_tokenizer(everything), *parts, preferred, digest)


def _file(home: Path | None, name: str) -> Path | None:
    file = None if home is None else home / name
    return file if file is not None and file.is_file() else None


def _paragraphs(home: Path | None) -> list[str]:
    file = _file(home, "tinyshakespeare/input.txt")
    if file is not None:
        parts = file.read_text(encoding="utf-8").split("\n\n")
    else:
        documents = islice(standard_library_docs(), 60)
        parts = [part for document in documents for part in document.text.split("\n\n")]
    whole = [" ".join(part.split()) for part in parts]
    return [text[:_CHARACTERS] for text in whole if len(text) > 40][:_PARAGRAPHS]


def _labelled(home: Path | None, paragraphs: list[str]) -> list[tuple[str, int]]:
    """Messages that are spam or not; else paragraphs with a mark of some kind or without."""
    file = _file(home, "sms-spam/SMSSpamCollection")
    if file is None:
        return [(text, int("(" in text or "?" in text)) for text in paragraphs]
    lines = [line.split("\t", 1) for line in file.read_text(encoding="utf-8").splitlines()]
    by_class: dict[str, list[str]] = {"ham": [], "spam": []}
    for label, text in lines:
        by_class[label].append(text[:_CHARACTERS])
    least = min(map(len, by_class.values()))
    return [(text, int(name == "spam")) for name in by_class for text in by_class[name][:least]]


def _translated(home: Path | None, paragraphs: list[str]) -> list[tuple[str, str]]:
    """Sentences and their translations; else a paragraph and the one that follows it."""
    file = _file(home, "tatoeba-fra-eng/fra-eng.zip")
    if file is None:
        return [(a[:60], b[:60]) for a, b in pairwise(paragraphs)]
    with zipfile.ZipFile(file) as archive, archive.open("fra.txt") as lines:
        read = (line.decode("utf-8").rstrip("\n").split("\t") for line in islice(lines, 60_000))
        return [(parts[0], parts[1]) for parts in islice(read, 10_000, None, 12)]


def _preferred(home: Path | None, paragraphs: list[str]) -> list[tuple[str, str, str]]:
    """Prompts with a polite and a rude answer; else text goes on, or its words are mixed."""
    file = _file(home, "rasbt-preference/instruction-data-with-preference.json")
    if file is not None:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return [(row["instruction"], row["chosen"], row["rejected"]) for row in rows]
    made: list[tuple[str, str, str]] = []
    for text in paragraphs:
        words = text.split()
        rest = words[4:]
        mixed = random.Random(text).sample(rest, len(rest))
        made.append((" ".join(words[:4]), " ".join(rest), " ".join(mixed)))
    return made


def _tokenizer(everything: list[str]) -> Any:
    import tokenizers as tk
    from transformers import PreTrainedTokenizerFast

    core = tk.Tokenizer(tk.models.BPE(unk_token=_SPECIAL[UNK]))
    core.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=list(_SPECIAL), show_progress=False
    )
    core.train_from_iterator(everything, trainer)
    pad, bos, eos, mask, unk = _SPECIAL
    names = {"pad_token": pad, "bos_token": bos, "eos_token": eos, "mask_token": mask}
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token=unk, **names)

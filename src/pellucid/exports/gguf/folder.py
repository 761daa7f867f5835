"""A folder with a GGUF file, a `Modelfile` and a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.checkpoints import write_folder
from pellucid.checkpoints.huggingface import Completed, complete, fitting_families
from pellucid.exports.card import CARD, CardFacts, card
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.fit import architecture_for
from pellucid.exports.gguf.layers import dense_of, windows_of
from pellucid.exports.gguf.metadata import add_sizes, context_length
from pellucid.exports.gguf.modelfile import MODELFILE, modelfile
from pellucid.exports.gguf.number_types import (
    check_type,
    file_type,
    gguf_library,
    number_type,
)
from pellucid.exports.gguf.tensors import gguf_tensors
from pellucid.exports.gguf.vocabulary import Vocabulary, add_vocabulary, vocabulary_for
from pellucid.exports.subject import Exported, Subject


def write_gguf(subject: Subject, out: Path, type_name: str) -> Exported:
    """Write a run for llama.cpp and Ollama.

    Args:
        subject: the opened run.
        out: the new folder.
        type_name: "f32", "f16", "bf16" or "q8_0".

    Raises:
        CheckpointError: llama.cpp does not compute a part of the model; names it.
        TextError: llama.cpp has no such tokenizer, or the template has no form for Ollama.
        ConfigError: there is no such type.
        PellucidError: the library gguf is missing.
    """
    check_type(type_name)
    library = gguf_library()
    architecture, completed = _fitted(subject)
    model = completed.model
    vocabulary = vocabulary_for(subject.tokenizer, model.rows)
    notes = tuple(_notes(architecture, completed, vocabulary))
    ready = gguf_tensors(architecture, model, completed.tensors)
    file = f"model-{type_name}.gguf"
    writes = model.decoder is not None
    length = context_length(architecture, model)

    def write(place: Path) -> None:
        writer = library.GGUFWriter(str(place / file), architecture.name)
        writer.add_name(out.resolve().name)
        writer.add_file_type(file_type(library, type_name))
        add_sizes(writer, library, architecture, model)
        add_vocabulary(writer, library, vocabulary)
        _add_special(writer, subject)
        if subject.template is not None:
            writer.add_chat_template(subject.template)
        for name, tensor in ready.items():
            kind = number_type(library, type_name, name, tensor)
            writer.add_tensor(name, library.quants.quantize(tensor.numpy(), kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        if writes:
            text = modelfile(file, length, subject.tokenizer, subject.template)
            (place / MODELFILE).write_text(text, encoding="utf-8")
        facts = CardFacts(
            name=out.resolve().name,
            format="gguf",
            family=architecture.name,
            notes=notes,
            file=file,
        )
        text = card(facts, subject.run, subject.folder, step=subject.step)
        (place / CARD).write_text(text, encoding="utf-8")

    write_folder(out, (file, MODELFILE, CARD), write)
    return Exported(folder=out, family=architecture.name, notes=notes)


def _fitted(subject: Subject) -> tuple[Architecture, Completed]:
    """The architecture of the first family that has one, and the model with that family's parts."""
    completed = complete(subject.config, subject.tensors)
    fitting = fitting_families(completed.model, completed.tensors)
    families = [family.model_type for family in fitting]
    return architecture_for(families, completed.model, completed.tensors), completed


def _notes(architecture: Architecture, completed: Completed, vocabulary: Vocabulary) -> list[str]:
    """What a reader has to know, as sentences."""
    model = completed.model
    notes = [completed.note] if completed.note else []
    kinds = [dense_of(stack) for stack in model.stacks]
    if any(
        isinstance(kind, config.MLP | config.GatedMLP) and kind.activation == "gelu"
        for kind in kinds
    ):
        notes.append(
            "llama.cpp computes GELU by its approximation with tanh, and this model was trained "
            "with the exact one: activations differ by less than 0.001."
        )
    length = context_length(architecture, model)
    if length < model.context_length:
        is_window = any(length in windows_of(stack) for stack in model.stacks)
        reason = (
            f"llama.cpp has no windows in {architecture.name}"
            if is_window
            else "llama.cpp takes LongRoPE's long factors by its context, and not by the text"
        )
        notes.append(
            f"{reason}, so the file's context is cut from {model.context_length:,} to {length:,} "
            "tokens, within which nothing changes."
        )
    if model.decoder is None and not isinstance(model.head, config.NoHead):
        notes.append(
            "llama.cpp fills no masks: the file has the encoder, which gives states, and no head."
        )
    if vocabulary.note:
        notes.append(vocabulary.note)
    return notes


def _add_special(writer: Any, subject: Subject) -> None:
    """Begin, end and the like, and where they go around a text."""
    tokenizer, model = subject.tokenizer, subject.config
    is_pair = model.encoder is not None and model.decoder is not None
    writer.add_bos_token_id(tokenizer.begin_id)
    writer.add_eos_token_id(tokenizer.end_id)
    if tokenizer.unknown_id is not None:
        writer.add_unk_token_id(tokenizer.unknown_id)
    roles = tokenizer.roles()
    for role, add in (
        ("pad_token", writer.add_pad_token_id),
        ("mask_token", writer.add_mask_token_id),
        ("sep_token", writer.add_sep_token_id),
    ):
        token_id = tokenizer.id_of(roles.get(role, ""))
        if token_id is not None:
            add(token_id)
    writer.add_add_bos_token(not is_pair)
    writer.add_add_eos_token(model.encoder is not None)
    if is_pair:
        writer.add_decoder_start_token_id(tokenizer.begin_id)

"""Public names of 0.1 with a new name or a new room: each still works in 0.2, with one warning.

The room of an old name has `__getattr__ = names_of(__name__)`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module


class OldNameWarning(FutureWarning):
    """A name of an earlier pellucid was used; the message has its name today."""


#: By the room of 0.1: the name there, and where the same thing is now.
OLD_NAMES: dict[str, dict[str, str]] = {
    "checkpoints": {
        "PARTIAL": "disk.atomic_write.PARTIAL",
        "Reached": "checkpoints.SavedProgress",
        "reached": "checkpoints.read_progress",
    },
    "config": {
        "DirectPreference": "config.DPO",
        "MaskedTokens": "config.MLM",
        "SequenceToSequence": "config.Seq2Seq",
        "SupervisedFineTuning": "config.SFT",
    },
    "datasets": {
        "whole": "datasets.find_file",
    },
    "diagnosis": {
        "Declared": "diagnosis.Expectations",
        "Prescription": "diagnosis.Fix",
        "Subject": "diagnosis.ModelAdapter",
        "found": "diagnosis.build_finding",
        "prescriptions": "diagnosis.propose_fixes",
        "reaches": "diagnosis.has_severity",
        "register": "diagnosis.read_codes",
        "small_twin": "diagnosis.reduce_model",
        "undisturbed": "diagnosis.preserve_state",
        "unsaid": "diagnosis.list_unknowns",
        "without": "diagnosis.drop_ignored",
    },
    "diagnosis.causes": {
        "Course": "diagnosis.causes.HistoryView",
        "Suspect": "diagnosis.causes.Candidate",
        "suspects": "diagnosis.causes.find_candidates",
    },
    "examples": {
        "Answers": "data.Answers",
        "Bucketed": "data.BucketedBatches",
        "Census": "data.RowCounts",
        "ChatTemplate": "data.ChatTemplate",
        "ClassLabels": "data.ClassLabels",
        "Collation": "data.Collation",
        "Columns": "data.Columns",
        "Example": "data.Example",
        "Examples": "data.Examples",
        "Facts": "data.Facts",
        "Form": "data.Form",
        "Labelled": "data.Labelled",
        "Packed": "data.PackedBatches",
        "Packing": "data.Packing",
        "PromptBatch": "data.PromptBatch",
        "PromptTexts": "data.PromptTexts",
        "Ragged": "data.Ragged",
        "Refusal": "data.Refusal",
        "Row": "data.Row",
        "StoredExamples": "data.PreparedData",
        "Template": "data.Template",
        "TwoAnswers": "data.TwoAnswers",
        "TwoTexts": "data.TwoTexts",
        "assemble_columns": "data.assemble_columns",
        "assemble_form": "data.assemble_form",
        "assemble_rows": "data.assemble_rows",
        "assemble_template": "data.assemble_template",
        "encoded": "data.encode_rows",
        "held_out_of": "data.choose_held_out",
        "in_turn": "data.in_turn",
        "open_examples": "data.open_prepared",
        "pack": "data.pack",
        "template_for": "data.template_for",
        "write": "data.write",
    },
    "explain.chapters": {
        "Entry": "explain.chapters.ChapterEntry",
        "find": "explain.chapters.find_chapter",
        "tell": "explain.chapters.build_chapter",
    },
    "generation": {
        "Chosen": "generation.SampledToken",
        "Found": "generation.BeamContinuation",
    },
    "native": {
        "Way": "native.Direction",
        "turned_off": "native.is_disabled",
    },
    "model": {
        "Classes": "model.ClassificationHead",
        "Head": "model.LanguageHead",
    },
    "objectives": {
        "DirectPreference": "objectives.DPO",
        "MaskedTokens": "objectives.MLM",
        "SequenceToSequence": "objectives.Seq2Seq",
        "asked": "objectives.open_reference",
        "at_rest": "objectives.evaluating",
        "frozen": "objectives.frozen_reference",
    },
    "presets": {
        "GOALS": "presets.OBJECTIVES",
        "Goal": "presets.ObjectivePreset",
        "find_goal": "presets.find_objective",
    },
    "report": {
        "Said": "report.SignText",
        "tell": "report.build_story",
    },
    "runs": {
        "Kill": "runs.KillRecord",
    },
    "runs.tasks": {
        "Given": "tasks.TaskInputs",
        "Reward": "tasks.Reward",
        "Task": "tasks.Task",
        "Written": "tasks.GeneratedText",
        "assemble_task": "tasks.assemble_task",
        "check_teacher": "tasks.check_teacher",
    },
    "text": {
        "Corpus": "data.Corpus",
        "Counts": "data.EncodedCounts",
        "Cut": "tokenizers.Cut",
        "Document": "data.Document",
        "Framing": "tokenizers.Framing",
        "MaskedOrder": "data.masked_batches",
        "Masking": "data.Masking",
        "Measure": "data.Measure",
        "Order": "data.next_token_batches",
        "Parts": "data.DividedCorpus",
        "Piece": "data.Piece",
        "Piped": "data.Piped",
        "PreparedText": "data.PreparedData",
        "Remembered": "data.HashCache",
        "Shard": "data.Examples",
        "Side": "data.CorpusSide",
        "SpanOrder": "data.span_batches",
        "Spans": "data.Spans",
        "Split": "data.Split",
        "Step": "tokenizers.Step",
        "Survey": "data.Survey",
        "Tally": "data.ReadCounts",
        "Tokenizer": "tokenizers.Tokenizer",
        "Unread": "tokenizers.Unread",
        "Watch": "data.OnProgress",
        "WordMerges": "tokenizers.WordMerges",
        "assemble_corpus": "data.assemble_corpus",
        "assemble_tokenizer": "data.assemble_tokenizer",
        "beginning_with": "tokenizers.beginning_with",
        "check_tokenizer": "data.check_tokenizer",
        "documents_from": "data.documents_from",
        "documents_of": "data.documents_of",
        "encoded": "data.encode_pieces",
        "fingerprint": "data.fingerprint",
        "hashed": "data.hash_pieces",
        "id_type": "data.id_type",
        "llama2c_tokenizer_from": "tokenizers.llama2c_tokenizer_from",
        "mask_id_of": "tokenizers.mask_id_of",
        "masked_windows": "data.masked_windows",
        "masking_for": "data.masking_for",
        "measure": "data.measure",
        "open_prepared": "data.open_prepared",
        "part": "data.part",
        "pieces_of": "data.pieces_of",
        "prepare": "data.prepare_documents",
        "read_pieces": "data.read_pieces",
        "replay": "tokenizers.replay",
        "sentinels_of": "tokenizers.sentinels_of",
        "settings_for": "tokenizers.settings_for",
        "span_windows": "data.span_windows",
        "spans_for": "data.spans_for",
        "split": "data.split",
        "standard_library_docs": "data.standard_library_docs",
        "survey": "data.survey",
        "tokenizer_from": "tokenizers.tokenizer_from",
        "train_bytes": "tokenizers.train_bytes",
        "training_texts": "data.training_texts",
        "unread": "tokenizers.unread",
        "vocabulary_of": "tokenizers.vocabulary_of",
        "windows": "data.next_token_windows",
        "with_mask": "tokenizers.with_mask",
        "with_sentinels": "tokenizers.with_sentinels",
    },
    "vitals": {
        "Bracketed": "vitals.ScoreBounds",
        "Judge": "vitals.VerdictTracker",
        "Looks": "vitals.AttentionStats",
        "Scored": "vitals.ScoreRule",
        "Seen": "vitals.WatchState",
        "as_it_was": "vitals.restoring",
        "at_rest": "vitals.reading_mode",
        "explained": "vitals.explain_rows",
        "numbers": "vitals.to_scalars",
        "of_scores": "vitals.from_scores",
        "told": "vitals.format_row",
        "unwrapped": "vitals.unwrap",
    },
    "web": {
        "Ask": "web.PageRequest",
        "Shelf": "web.RunRegistry",
        "ask_of": "web.parse_request",
    },
}


def warn_old_name(message: str) -> None:
    """Warn of a name in a file or a command: Python shows the same message once in a process."""
    warnings.warn(message, OldNameWarning, stacklevel=1)


def names_of(room: str) -> Callable[[str], object]:
    """The `__getattr__` of a room of 0.1, such as "pellucid.text".

    It warns once for each place that asks, and raises AttributeError for a name that never was.
    """

    def find(name: str) -> object:
        new = OLD_NAMES[room.removeprefix("pellucid.")].get(name)
        if new is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        new_room, _, new_name = f"pellucid.{new}".rpartition(".")
        warnings.warn(
            f"{room}.{name} is {new_room}.{new_name} now; the old name goes in 0.3",
            OldNameWarning,
            stacklevel=2,
        )
        return getattr(import_module(new_room), new_name)

    return find


def old_attributes(**new_names: str) -> Callable[[object, str], object]:
    """The `__getattr__` of a class whose attributes had other names in 0.1: old=new."""

    def find(owner: object, name: str) -> object:
        kind = type(owner).__name__
        if name not in new_names:
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        new = new_names[name]
        warnings.warn(
            f"{kind}.{name} is {kind}.{new} now; the old name goes in 0.3",
            OldNameWarning,
            stacklevel=2,
        )
        return getattr(owner, new)

    return find

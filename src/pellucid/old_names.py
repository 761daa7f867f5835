"""Public names of 0.1 with a new name or a new room: each still works in 0.2, with one warning.

The room of an old name has `__getattr__ = names_of(__name__)`.

Must not know: the meaning of a name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module


class OldNameWarning(FutureWarning):
    """A name of an earlier pellucid was used; the message has its name today."""


#: New names of things, by the room of 0.1 and the name there.
_RENAMED: dict[str, dict[str, str]] = {
    "checkpoints": {
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
        "Bucketed": "data.BucketedBatches",
        "Census": "data.RowCounts",
        "Packed": "data.PackedBatches",
        "StoredExamples": "data.PreparedData",
        "encoded": "data.encode_rows",
        "held_out_of": "data.choose_held_out",
        "open_examples": "data.open_prepared",
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
        "Written": "tasks.GeneratedText",
    },
    "text": {
        "Counts": "data.EncodedCounts",
        "MaskedOrder": "data.masked_batches",
        "Order": "data.next_token_batches",
        "Parts": "data.DividedCorpus",
        "PreparedText": "data.PreparedData",
        "Remembered": "data.HashCache",
        "Shard": "data.Examples",
        "Side": "data.CorpusSide",
        "SpanOrder": "data.span_batches",
        "Tally": "data.ReadCounts",
        "Watch": "data.OnProgress",
        "encoded": "data.encode_pieces",
        "hashed": "data.hash_pieces",
        "prepare": "data.prepare_documents",
        "windows": "data.next_token_windows",
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
#: Names that only moved, by the room of 0.1 and the room of today.
_SAME_NAMES = {
    ("checkpoints", "disk.atomic_write"): """
        PARTIAL
    """,
    ("examples", "data"): """
        Answers ChatTemplate ClassLabels Collation Columns Example Examples Facts Form
        Labelled Packing PromptBatch PromptTexts Ragged Refusal Row Template
        TwoAnswers TwoTexts assemble_columns assemble_form assemble_rows
        assemble_template in_turn pack template_for write
    """,
    ("runs.tasks", "tasks"): """
        Reward Task assemble_task check_teacher
    """,
    ("text", "data"): """
        Corpus Document Masking Measure Piece Piped Spans Split Survey assemble_corpus
        assemble_tokenizer check_tokenizer documents_from documents_of fingerprint
        id_type masked_windows masking_for measure open_prepared part pieces_of
        read_pieces span_windows spans_for split standard_library_docs survey
        training_texts
    """,
    ("text", "tokenizers"): """
        Cut Framing Step Tokenizer Unread WordMerges beginning_with
        llama2c_tokenizer_from mask_id_of replay sentinels_of settings_for
        tokenizer_from train_bytes unread vocabulary_of with_mask with_sentinels
    """,
}

#: Today's name of each old name, by the room of 0.1.
OLD_NAMES = {
    room: _RENAMED.get(room, {})
    | {
        name: f"{new_room}.{name}"
        for (old_room, new_room), names in _SAME_NAMES.items()
        if old_room == room
        for name in names.split()
    }
    for room in dict.fromkeys([*_RENAMED, *(old_room for old_room, _ in _SAME_NAMES)])
}


def warn_old_name(message: str) -> None:
    """Warn of a name in a file or a command: Python shows the same message once in a process."""
    warnings.warn(message, OldNameWarning, stacklevel=1)


def warn_renamed(old: str, new: str) -> None:
    """Warn of an old name, at the line that called the caller of this function."""
    message = f"{old} is {new} now; the old name goes in 0.3"
    warnings.warn(message, OldNameWarning, stacklevel=3)


def names_of(room: str) -> Callable[[str], object]:
    """The `__getattr__` of a room of 0.1, such as "pellucid.text".

    It warns once for each place that asks, and raises AttributeError for a name that never was.
    """

    def find(name: str) -> object:
        new = OLD_NAMES[room.removeprefix("pellucid.")].get(name)
        if new is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        new_room, _, new_name = f"pellucid.{new}".rpartition(".")
        warn_renamed(f"{room}.{name}", f"{new_room}.{new_name}")
        return getattr(import_module(new_room), new_name)

    return find

"""Runs from their beginning to their end: planned, built, trained, resumed, verified, converted.

Comes in: a config, or a folder. Goes out: a `Run`.

Must not know: who watches, beyond the observers that it gets.
"""

from pellucid.evaluation.held_out_text import Evaluation, evaluate
from pellucid.exports import Exported, export_run
from pellucid.inference.chat import answer
from pellucid.inference.classification import (
    Classified,
    ClassShare,
    class_names,
    classify,
    has_several_labels,
)
from pellucid.inference.embedding import POOLS, Neighbour, Pool, embed, neighbours, ranked
from pellucid.inference.fill_mask import Filling, Mask, fill
from pellucid.inference.sample import beam_search, generate
from pellucid.inference.scoring import Likely, Prediction, Score, ScoredToken, next_token, score
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words
from pellucid.runs.adapters import export_adapter
from pellucid.runs.convert import import_model, push_run
from pellucid.runs.evaluate_examples import (
    RowsEvaluation,
    evaluate_held_out,
    evaluate_rows,
    learns_from_rows,
    task_on,
)
from pellucid.runs.import_run import Imported
from pellucid.runs.kills import KillProof, KillRecord, verify_kills
from pellucid.runs.prepare_folder import prepare_folder
from pellucid.runs.rebuild import branch
from pellucid.runs.resume import resume
from pellucid.runs.survey_corpus import CorpusReport, count_corpus
from pellucid.runs.train import train, train_config
from pellucid.runs.verify import ResumeProof, verify_resume
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import Run, load
from pellucid.saved_runs.records import attach, read_events
from pellucid.saved_runs.requirements import Kind, kind_of

__all__ = [
    "POOLS",
    "ClassShare",
    "Classified",
    "CorpusReport",
    "Evaluation",
    "Exported",
    "Filling",
    "Imported",
    "KillProof",
    "KillRecord",
    "Kind",
    "Likely",
    "Mask",
    "Neighbour",
    "Pool",
    "Prediction",
    "ResumeProof",
    "RowsEvaluation",
    "Run",
    "RunFolder",
    "Score",
    "ScoredToken",
    "answer",
    "attach",
    "beam_search",
    "branch",
    "class_names",
    "classify",
    "count_corpus",
    "embed",
    "evaluate",
    "evaluate_held_out",
    "evaluate_rows",
    "existing_folder",
    "export_adapter",
    "export_run",
    "fill",
    "generate",
    "has_several_labels",
    "import_model",
    "kind_of",
    "learns_from_rows",
    "load",
    "neighbours",
    "next_token",
    "prepare_folder",
    "push_run",
    "ranked",
    "read_events",
    "resume",
    "score",
    "task_on",
    "train",
    "train_config",
    "verify_kills",
    "verify_resume",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)

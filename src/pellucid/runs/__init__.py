"""Where rooms are joined: a run is built, trained, resumed, loaded, evaluated, sampled.

Comes in: a config, or a folder. Goes out: a `Run`. It does not know who watches or displays, beyond
the observers it is handed.
"""

from pellucid.runs.adapters import export_adapter
from pellucid.runs.answering import answer
from pellucid.runs.classify import Classified, ClassShare, class_names, classify, has_several_labels
from pellucid.runs.convert import export_run, import_model
from pellucid.runs.corpus import CorpusReport, count_corpus
from pellucid.runs.embedding import POOLS, Neighbour, Pool, embed, neighbours, ranked
from pellucid.runs.evaluate_rows import (
    RowsEvaluation,
    evaluate_held_out,
    evaluate_rows,
    learns_from_rows,
    task_on,
)
from pellucid.runs.evaluation import Evaluation, evaluate
from pellucid.runs.filling import Filling, Mask, fill
from pellucid.runs.folder import RunFolder, existing_folder
from pellucid.runs.imported import Exported, Imported
from pellucid.runs.kills import Kill, KillProof, verify_kills
from pellucid.runs.kinds import Kind, kind_of
from pellucid.runs.load import Run, load
from pellucid.runs.rebuild import branch
from pellucid.runs.records import attach, read_events
from pellucid.runs.resume import resume
from pellucid.runs.scoring import Likely, Prediction, Score, ScoredToken, next_token, score
from pellucid.runs.speak import beam_search, generate
from pellucid.runs.train import train, train_config
from pellucid.runs.verify import ResumeProof, verify_resume

__all__ = [
    "POOLS",
    "ClassShare",
    "Classified",
    "CorpusReport",
    "Evaluation",
    "Exported",
    "Filling",
    "Imported",
    "Kill",
    "KillProof",
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

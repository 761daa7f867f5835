"""Where rooms are joined: a run is built, trained, resumed, loaded, evaluated, sampled.

Comes in: a config, or a folder. Goes out: a `Run`. It does not know who watches or displays, beyond
the observers it is handed.
"""

from pellucid.runs.evaluation import Evaluation, evaluate
from pellucid.runs.folder import RunFolder, existing_folder
from pellucid.runs.load import Run, load
from pellucid.runs.records import attach, read_events
from pellucid.runs.report import CorpusReport, report
from pellucid.runs.resume import resume
from pellucid.runs.speak import generate
from pellucid.runs.train import train, train_config
from pellucid.runs.verify import ResumeProof, verify_resume

__all__ = [
    "CorpusReport",
    "Evaluation",
    "ResumeProof",
    "Run",
    "RunFolder",
    "attach",
    "evaluate",
    "existing_folder",
    "generate",
    "load",
    "read_events",
    "report",
    "resume",
    "train",
    "train_config",
    "verify_resume",
]

"""Watch a training from outside: five equations, their signs, and a word for each.

Must not know: what to conclude.
"""

from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words
from pellucid.vitals.attention import (
    AttentionStats,
    ScoreBounds,
    ScoreRule,
    by_logsumexp,
    by_rows,
    from_scores,
    normalised,
)
from pellucid.vitals.chart import chart, explain_rows
from pellucid.vitals.label_baselines import Baselines, baselines
from pellucid.vitals.ledger.marks import Mark, MarkName
from pellucid.vitals.logs import Log, log_to, to_scalars
from pellucid.vitals.loop_watch import Watch
from pellucid.vitals.model_parts import Anatomy, unwrap
from pellucid.vitals.overhead_budget import MAX_OVERHEAD, Cost
from pellucid.vitals.probe import Probe
from pellucid.vitals.ranks.ranks import RankReport
from pellucid.vitals.record import Point, Record
from pellucid.vitals.rules import Rule, rules_of
from pellucid.vitals.signs import Row, Sign, format_row, rows
from pellucid.vitals.step_signs import number_in
from pellucid.vitals.taps.restore import reading_mode, restoring
from pellucid.vitals.trainer import watcher
from pellucid.vitals.verdicts import VerdictTracker
from pellucid.vitals.watch import watch
from pellucid.vitals.watch_report import WatchState

__all__ = [
    "MAX_OVERHEAD",
    "Anatomy",
    "AttentionStats",
    "Baselines",
    "Cost",
    "Log",
    "Mark",
    "MarkName",
    "Point",
    "Probe",
    "RankReport",
    "Record",
    "Row",
    "Rule",
    "ScoreBounds",
    "ScoreRule",
    "Sign",
    "VerdictTracker",
    "Watch",
    "WatchState",
    "baselines",
    "by_logsumexp",
    "by_rows",
    "chart",
    "explain_rows",
    "format_row",
    "from_scores",
    "log_to",
    "normalised",
    "number_in",
    "reading_mode",
    "restoring",
    "rows",
    "rules_of",
    "to_scalars",
    "unwrap",
    "watch",
    "watcher",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)

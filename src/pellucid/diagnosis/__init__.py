"""Find the faults of a model, its data and its optimiser, before and after training.

Each probe tests for one fault in any module that maps ids to logits, and leaves the module as it
was, bit for bit. It reports a `Finding`: a stable code, the evidence, the place, and what to do.

Must not know: how findings are shown.
"""

from pellucid.diagnosis.assertions import (
    assert_all_parameters_learn,
    assert_causal,
    assert_documents_apart,
    assert_ids_fit,
    assert_knows_order,
    assert_labels_aligned,
    assert_learns_one_batch,
    assert_loss_is_cross_entropy,
    assert_numbers_hold,
    assert_padding_unseen,
    assert_repeatable,
    assert_rows_apart,
    assert_sees_its_window,
    assert_starts_at_chance,
    assert_tied,
    assert_weights_sound,
)
from pellucid.diagnosis.batches import Examples, examples
from pellucid.diagnosis.check import check
from pellucid.diagnosis.check_target import Checked, check_named
from pellucid.diagnosis.diagnose import diagnose
from pellucid.diagnosis.expectations import Expectations, declare
from pellucid.diagnosis.finding import (
    SEVERITIES,
    Code,
    Evidence,
    Finding,
    Severity,
    build_finding,
    drop_ignored,
    evidence,
    has_severity,
    limit,
    read_codes,
)
from pellucid.diagnosis.fixes.propose import Fix, propose_fixes
from pellucid.diagnosis.history.history import Facts, History, Points, Reading
from pellucid.diagnosis.history.run import history_of_run
from pellucid.diagnosis.history.watch import history_of_watch
from pellucid.diagnosis.logs.history import history_of_log, is_log
from pellucid.diagnosis.logs.unknowns import list_unknowns
from pellucid.diagnosis.loop import Loop, next_token_loss, plain_update
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.preserve_state import preserve_state
from pellucid.diagnosis.probes.labels import probe_ends, probe_labels, probe_supervised
from pellucid.diagnosis.probes.leakage import (
    probe_batch,
    probe_causality,
    probe_documents,
    probe_padding,
)
from pellucid.diagnosis.probes.learning import probe_gradients, probe_moves, probe_overfit
from pellucid.diagnosis.probes.losses import Reported, probe_initial_loss, probe_loss
from pellucid.diagnosis.probes.numerics import probe_chance, probe_dtypes, probe_finite
from pellucid.diagnosis.probes.receptive_field import (
    probe_positions,
    probe_receptive_field,
    probe_rotary,
)
from pellucid.diagnosis.probes.token_ids import probe_duplicates, probe_ids, probe_tokenizer
from pellucid.diagnosis.probes.weights import probe_import, probe_numbers, probe_ties, probe_weights
from pellucid.diagnosis.proof.progress import Advance
from pellucid.diagnosis.proof.proof import Proof, Screening
from pellucid.diagnosis.proof.prove import prove
from pellucid.diagnosis.proof.verdict import Trial
from pellucid.diagnosis.reduced_model import reduce_model
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "SEVERITIES",
    "Advance",
    "Checked",
    "Code",
    "Evidence",
    "Examples",
    "Expectations",
    "Facts",
    "Finding",
    "Fix",
    "History",
    "Loop",
    "ModelAdapter",
    "Points",
    "Proof",
    "Reading",
    "Reported",
    "Screening",
    "Severity",
    "Trial",
    "assert_all_parameters_learn",
    "assert_causal",
    "assert_documents_apart",
    "assert_ids_fit",
    "assert_knows_order",
    "assert_labels_aligned",
    "assert_learns_one_batch",
    "assert_loss_is_cross_entropy",
    "assert_numbers_hold",
    "assert_padding_unseen",
    "assert_repeatable",
    "assert_rows_apart",
    "assert_sees_its_window",
    "assert_starts_at_chance",
    "assert_tied",
    "assert_weights_sound",
    "build_finding",
    "check",
    "check_named",
    "declare",
    "diagnose",
    "drop_ignored",
    "evidence",
    "examples",
    "has_severity",
    "history_of_log",
    "history_of_run",
    "history_of_watch",
    "is_log",
    "limit",
    "list_unknowns",
    "next_token_loss",
    "plain_update",
    "preserve_state",
    "probe_batch",
    "probe_causality",
    "probe_chance",
    "probe_documents",
    "probe_dtypes",
    "probe_duplicates",
    "probe_ends",
    "probe_finite",
    "probe_gradients",
    "probe_ids",
    "probe_import",
    "probe_initial_loss",
    "probe_labels",
    "probe_loss",
    "probe_moves",
    "probe_numbers",
    "probe_overfit",
    "probe_padding",
    "probe_positions",
    "probe_receptive_field",
    "probe_rotary",
    "probe_supervised",
    "probe_ties",
    "probe_tokenizer",
    "probe_weights",
    "propose_fixes",
    "prove",
    "read_codes",
    "reduce_model",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)

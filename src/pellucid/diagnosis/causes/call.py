"""Causes in the loop's own call: what its outputs depend on, and which tokens are paid for.

The signs are measured once, at the first update, by repeating the call (see `CallProbe`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.repetition import has_one_length
from pellucid.diagnosis.finding import limit


def divided_logits(view: HistoryView) -> Candidate | None:
    """A loss that divides the logits by a number."""
    readings = view.readings("logits.temperature")
    if not readings:
        return None
    value = readings[0].value
    if limit("LOS014", "low") <= value <= limit("LOS014", "high"):
        return None
    return suspect("LOS014", value=value, step=readings[0].step)


def visible_padding(view: HistoryView) -> Candidate | None:
    """Padding that moves outputs: a little is no more than a note while training goes well."""
    readings = view.readings("call.padding")
    if not readings or readings[0].value == 0:
        return None
    value = readings[0].value
    severity = "note" if value <= limit("ATT003", "size") and view.goes_well else "warn"
    return suspect("ATT003/call", value=value, step=readings[0].step, severity=severity)


def _is_given(view: HistoryView) -> bool:
    """Whether no answer is the model's own, which a limit of length may have ended."""
    return not view.facts.own_answers


def _is_new_to_text(view: HistoryView) -> bool:
    """Whether new weights learn tokens from a causal model's loss: a masked one pays for few."""
    return view.fresh and _learns_texts(view)


def _learns_texts(view: HistoryView) -> bool:
    """Whether tokens are learnt from a causal model's loss."""
    return view.learns_tokens and not view.readings("call.right")


def _has_usual_size(view: HistoryView) -> bool:
    """Whether first weights are not so small that rounding hides what tokens say to each other."""
    variance = view.first("norm.variance_over_eps")
    return variance is None or variance > limit("INI006", "variance")


def _knows_frequencies_at_most(view: HistoryView) -> bool:
    """Whether so many updates went badly, or led no further than to the frequencies of tokens.

    What a sample of tokens shows as their entropy is less than it is. Not of masked models: masks
    come between the neighbours.
    """
    if view.updates < limit("DAT009", "few") or view.readings("call.right"):
        return False
    entropy, end = view.first("batch.entropy"), view.end
    is_above = entropy is not None and end is not None and end > entropy - limit("DAT009", "below")
    is_whole = (view.first("targets.counted") or 1.0) > limit("DAT009", "whole")  # no padding
    return (is_above and is_whole) or not view.goes_well


def _reads_no_order(view: HistoryView) -> bool:
    """Whether no order in the rows left little to learn; of several batches, after more updates."""
    is_known = bool(view.first("batch.disorder")) or view.updates >= limit("DAT009", "updates")
    return view.end is not None and is_known and _knows_frequencies_at_most(view)


def _knows_less(view: HistoryView) -> bool:
    """Whether the loss is higher than that of the model's own logits.

    Noise raises the loss. A second head does so by little, and another model's logits lower it.
    """
    probe = view.first("loss.probe")
    model_loss, start = view.guessing if probe is None else probe, view.start
    if model_loss is None or start is None:
        return False
    return start >= model_loss + limit("LOS005", "raised")


def _names_many_targets(view: HistoryView) -> bool:
    """Whether the gradient is that of a softmax, and not of one token that is asked for alone."""
    balance = view.first("targets.unbalanced") or 0.0
    if (view.first("targets.smoothing") or 0.0) > limit("LOS013", "smoothing"):
        return False  # shares that are nearly even are the same at all places
    return not view.first("targets.one_id") and balance <= limit("LOS005", "balance")


def random_outputs(view: HistoryView) -> Candidate | None:
    """Outputs that are random in evaluation mode: of dropout, a little is no more than a note.

    Without dropout they may be meant to be: a VAE samples in evaluation too.
    """
    sampled = view.readings("call.drawn")
    readings = sampled or view.readings("call.random")
    if not readings or readings[0].value == 0:
        return None
    value, key = readings[0].value, "RND001/drawn" if sampled else "RND001/call"
    severity = None if value > limit("RND001", "size") and not sampled else "note"
    return suspect(key, value=value, step=readings[0].step, severity=severity)


def rows_without_labels(view: HistoryView) -> Candidate | None:
    """Rows without any label: some, or all of them."""
    readings = view.readings("targets.unpaid_rows")
    if not readings or readings[0].value <= limit("LOS016", "share") or view.facts.on_rewards:
        return None
    key = "LOS011/call" if readings[0].value == 1 else "LOS016"
    return suspect(key, value=readings[0].value, step=readings[0].step)


def swapped_texts(view: HistoryView) -> Candidate | None:
    """Targets that stand in the encoder's text, or that alone begin with a start token."""
    in_encoder = Comparison("DAT013", "targets.swapped", (">", "share"), n=1)
    begins = Comparison("DAT013/starts", "targets.started", (">", "share"), n=1)
    return in_encoder(view) or begins(view)


def one_token(view: HistoryView) -> Candidate | None:
    """Rows of one token, or a decoder that reads such rows."""
    in_batch = Comparison("DAT014", "batch.one_token", (">", "share"), n=1)
    in_decoder = Comparison("DAT014/decoder", "batch.decoder", (">", "share"), n=1)
    return in_batch(view) or in_decoder(view)


def shifted_rows(view: HistoryView) -> Candidate | None:
    """Rows whose targets stand at distances from their tokens that differ from row to row."""
    mark = view.history.marks.get("shifted")
    if mark is None or mark.n_seen < limit("LOS003", "times") or len(set(mark.values)) < 2:
        return None
    return suspect_mark("LOS003/rows", mark, value=max(mark.values))


def by_lot(view: HistoryView) -> Candidate | None:
    """Labels of masked places that are no tokens of the text, and all equally frequent.

    Rare words that are chosen to be masked are no other tokens of the text either, but they are
    not equally frequent. In a text that is drawn by lot, masked tokens are as all others.
    """
    kin, equal, size = view.usual("targets.kin"), view.usual("targets.equal"), view.facts.vocab_size
    if kin is None or equal is None or size is None or kin > limit("LOS003", "kin"):
        return None
    if equal * size > limit("LOS003", "even") or view.goes_well:
        return None
    if view.updates < limit("LOS003", "long") or view.first("targets.unbalanced") is None:
        return None  # outputs may be of another kind than the tokens that are read
    return suspect("LOS003/kin", value=kin, even=equal * size, step=1)


@dataclass(frozen=True, slots=True)
class OfTargets:
    """A cause in the targets of the first call, a note if other updates pay for the next token.

    A loop may turn to several tasks, and its first call shows one of them.
    """

    comparison: Comparison

    @property
    def __name__(self) -> str:
        return self.comparison.__name__

    def __call__(self, view: HistoryView) -> Candidate | None:
        """The candidate if the first call shows it; None otherwise."""
        candidate, mark = self.comparison(view), view.history.marks.get("follows")
        if candidate is None or mark is None or mark.share < limit("LOS002", "others"):
            return candidate
        return replace(candidate, severity="note", likely=0.5)


CAUSES: tuple[Cause, ...] = (
    Comparison("ATT001/call", "call.future", (">", 0), n=1),
    Comparison("ATT002/call", "call.rows", (">", 0), n=1),
    Comparison("ATT004/call", "call.documents", (">", 0), n=1),
    Comparison("ATT004/joined", "call.joined", (">", 0), n=1),
    Comparison("ATT004/ends", "call.joined_ends", (">", 0), n=1),
    Comparison("ATT005/call", "call.past", ("<", "influence"), n=1, condition=_has_usual_size),
    Comparison("ATT005/rest", "call.rest", ("<", "influence"), n=1, condition=_has_usual_size),
    Comparison("ATT011/rows", "call.misfit", (">=", "misfit"), n=1),
    Comparison(
        "POS005", "call.first_position", (">", "start"), n=1, condition=lambda view: view.fresh
    ),
    Comparison("POS006", "call.wavelength", ("<", "share"), n=1),
    Comparison("INI007", "weights.alike", (">", "share"), n=1, condition=lambda view: view.fresh),
    Comparison("LOS031", "targets.unasked", (">", "share"), n=1, condition=_is_new_to_text),
    Comparison("LOS031/masked", "targets.unpaid_masks", (">", "masked"), n=1),
    Comparison("LOS004/one", "targets.one_id", (">", 0), n=1),
    Comparison(
        "LOS004/weights", "targets.evenness", ("<", "share"), n=1, condition=_is_new_to_text
    ),
    Comparison("DAT012/filled", "batch.filled", (">", 0), n=1, condition=_learns_texts),
    Comparison("DAT012/scattered", "batch.scattered", (">", "scattered"), n=1),
    Comparison("DAT004/scattered", "batch.unspelt", (">", "scattered"), n=1),
    Comparison("DAT009/sorted", "batch.falls", ("<", "falls"), n=1, condition=_is_new_to_text),
    Comparison("ATT008", "call.right", ("<", "change"), n=1),
    Comparison("ATT009", "call.inputs", ("<", "change"), n=1),
    Comparison("ATT010", "call.source", ("<", "change"), n=1),
    Comparison("POS003", "call.one_position", (">", "share"), n=1),
    Comparison("POS003/rows", "call.row_order", (">", 0), n=1),
    Comparison("POS004", "call.falling_positions", (">", "share"), n=1),
    OfTargets(Comparison("LOS001/call", "targets.unmoved", (">", "agree"), n=1)),
    OfTargets(Comparison("LOS002/call", "targets.skipped", (">", "share"), n=1)),
    OfTargets(Comparison("LOS003/call", "targets.scrambled", (">", "share"), n=1)),
    Comparison("LOS003/early", "targets.early", (">", 0), n=1),
    shifted_rows,
    Comparison("LOS019", "targets.class_weights", (">", "factor"), n=1),
    Comparison("LOS019/labels", "targets.label_weights", (">", "factor"), n=1),
    Comparison("LOS013/classes", "targets.class_smoothing", (">", "smoothing"), n=1),
    by_lot,
    Comparison("LOS003/unread", "targets.unread", (">", "unread"), n=1),
    Comparison("LOS030/focus", "targets.ease", (">", "ease"), n=1),
    Comparison("LOS013/focus", "targets.focus", (">", "focus"), n=1),
    Comparison("LOS008/classes", "targets.squashed", (">", "squashed"), n=1),
    Comparison("LOS003/spans", "targets.misplaced", (">", "spans"), n=1),
    Comparison("LOS003/number", "targets.one_number", (">", "number"), n=1),
    Comparison("LOS005/reshaped", "targets.reshaped", (">", "reshaped"), n=1),
    Comparison("LOS005/impossible", "targets.impossible", (">", 0), n=1),
    Comparison("LOS039", "targets.exclusive", (">", "share"), n=1),
    Comparison("LOS005/several", "targets.several", (">", "several"), n=1),
    Comparison("LOS005/untouched", "targets.untouched", (">", "untouched"), n=1),
    Comparison("DAT011/key", "targets.key", (">", "key"), n=1),
    Comparison("LOS003/alike", "targets.own", ("<", "alike"), n=1, condition=_names_many_targets),
    Comparison("LOS005/noise", "logits.noise", (">", "noise"), n=1, condition=_knows_less),
    random_outputs,
    OfTargets(Comparison("LOS003/strange", "targets.strange", (">", "strange"), n=1)),
    OfTargets(
        Comparison(
            "LOS003/unrelated",
            "targets.unrelated",
            (">", "unrelated"),
            n=1,
            condition=_knows_frequencies_at_most,
        )
    ),
    Comparison("LOS003/foreign", "targets.foreign", (">", "foreign"), n=1),
    Comparison("DAT006/call", "targets.padding", (">", "share"), n=1),
    Comparison("ATT011", "call.hidden", (">", "share"), n=1),
    Comparison("ATT011/keys", "call.hidden_keys", (">", "share"), n=1),
    Comparison("ATT012", "call.hidden_text", (">", "share"), n=1),
    Comparison("LOS015", "targets.unmasked", (">", "share"), n=1),
    swapped_texts,
    one_token,
    Comparison("DAT015", "batch.length", ("<", "length"), n=1),
    Comparison("DAT015/cut", "batch.cut_length", ("<", "cut"), n=1, condition=has_one_length),
    Comparison("LOS030", "targets.easiness", (">", "share"), n=1),
    Comparison("DAT030", "targets.renamed", (">", "share"), n=1),
    Comparison("DAT030/masked", "targets.moved", (">", "errors"), n=1),
    # targets that are the next ids say nothing of how few they are
    Comparison("LOS004/call", "targets.paid", ("<", "text"), n=1, condition=_is_new_to_text),
    Comparison(
        "DAT009/interleaved",
        "batch.interleaved",
        (">", "interleaved"),
        n=1,
        condition=_knows_frequencies_at_most,
    ),
    Comparison(
        "DAT009/columns",
        "batch.columns",
        (">", "interleaved"),
        n=1,
        condition=lambda view: not view.first("call.time_first"),
    ),
    Comparison("DAT009/across", "batch.across", (">", "interleaved"), n=1),
    Comparison(
        "DAT009/disorder",
        "batch.disorder",
        (">=", 0),
        n=1,
        condition=_reads_no_order,
        further={"end": lambda view: view.end},
    ),
    Comparison("DAT012/halves", "batch.same_halves", (">", "halves"), n=1),
    Comparison("DAT024", "batch.highest", (">", "share"), n=1),
    Comparison("DAT016", "batch.doubled_start", (">", "share"), n=1),
    Comparison("DAT005/call", "targets.unended", (">", "share"), n=1),
    Comparison("DAT019/targets", "targets.unclosed", (">", "share"), n=1),
    Comparison("DAT019/answers", "targets.open_answers", (">", "share"), n=1, condition=_is_given),
    Comparison("DAT032", "targets.copied", (">", "share"), n=1),
    Comparison("DAT019/absent", "targets.endless", (">", "share"), n=1),
    Comparison("LOS018", "targets.head", (">", "share"), n=1),
    Comparison("LOS034", "targets.beside", (">", "errors"), n=1),
    Comparison("LOS017", "targets.shared", (">", "tokens"), n=1),
    Comparison("RLH010", "answers.mixed", (">", "mixed"), n=1),
    Comparison("RLH011", "answers.prompts", (">", "share"), n=1),
    visible_padding,
    Comparison("ATT003/before", "call.shown_before", (">", "share"), n=1),
    divided_logits,
    rows_without_labels,
    Comparison("LOS004/answers", "answers.last", (">", 0), n=1),
)

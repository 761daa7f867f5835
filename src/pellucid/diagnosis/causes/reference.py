"""Causes in what a model is compared with: its reference, or its teacher."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import usual_stride
from pellucid.diagnosis.finding import limit

#: Two losses in single precision that differ by less are equal.
_EXACT = 1e-6


def _first_distance(view: HistoryView) -> float | None:
    return next((reading.value for reading in view.readings("reference.kl_start")), None)


def other_reference(view: HistoryView) -> Candidate | None:
    """A distance from the reference before the first update."""
    start = _first_distance(view)
    if start is None or start < limit("REF001", "start"):
        return None
    return suspect("REF001", start=start, step=0, severity=None if start > 0.01 else "warn")


def far_start(view: HistoryView) -> Candidate | None:
    """A distance in the row of the first update, as the loop logs it: no update has made it."""
    points = view.history.measures.get("kl", ())
    if not view.facts.on_rewards or not points or points[0][0] > 1:
        return None
    start = points[0][1]
    if start < limit("REF001", "logged"):
        return None
    if any(distance < limit("REF001", "back") * start for _, distance in points[1:2]):
        return None  # several passes over the first answers went far; another model stays away
    # a first row may follow some steps, and these take a policy 1 to 3 nats away
    severity = "warn" if start >= limit("REF001", "far") else "note"
    return suspect("REF001/kl", start=start, step=0, severity=severity)


def paid_distance(view: HistoryView) -> Candidate | None:
    """A loss that falls below 0 in proportion to the distance, which it ought to add.

    A policy's own term is about 0, because advantages are: the rest is beta times the distance.
    """
    losses = dict(view.history.losses)
    pairs = [
        (distance, losses[step])
        for step, distance in view.history.measures.get("kl", ())
        if step in losses and distance > limit("REF004", "kl") and math.isfinite(losses[step])
    ]
    if not view.facts.on_rewards or len(pairs) < limit("REF004", "rows"):
        return None
    distances = [distance for distance, _ in pairs]
    weights = [-loss / distance for distance, loss in pairs]
    weight = statistics.median(weights)
    if max(distances) < limit("REF004", "grown") * min(distances):
        return None
    if statistics.pstdev(weights) < limit("REF004", "spread") * weight:
        return suspect("REF004", weight=weight, n=len(pairs), distance=distances[-1])
    # the noise of the policy's own term may hide the weight of a row, and not that of all rows
    row_losses = [loss for _, loss in pairs]
    if len(pairs) < limit("REF004", "many") or len({*row_losses}) < 2:
        return None
    slope, start = statistics.linear_regression(distances, row_losses)
    begins_at_0 = abs(start) < limit("REF004", "spread") * -slope * max(distances)
    is_tied = statistics.correlation(distances, row_losses) <= -limit("REF004", "tied")
    if not begins_at_0 or not is_tied:
        return None
    return suspect("REF004/line", weight=-slope, n=len(pairs), distance=distances[-1])


def negative_beta(view: HistoryView) -> Candidate | None:
    """A weight of the distance below 0, as the trainer logs it: the way from the reference pays."""
    betas = view.measure("beta")
    if not view.facts.on_rewards or not betas or betas[0] >= 0:
        return None
    return suspect("REF004/beta", beta=betas[0], step=0)


def charged_beta(view: HistoryView) -> float | None:
    """The loss over the distance from the reference, where it is one number: that is beta.

    A policy's own term is about 0, because advantages are. It is not seen if beta is as large as it
    needs to be for such a distance to outweigh them.
    """
    losses = dict(view.history.losses)
    weights = [
        losses[step] / distance
        for step, distance in view.history.measures.get("kl", ())
        if distance > 0 and math.isfinite(losses.get(step, math.inf))
    ]
    beta = statistics.median(weights) if len(weights) >= limit("REF004", "rows") else 0.0
    is_constant = beta > 0 and statistics.pstdev(weights) < limit("REF004", "spread") * beta
    return beta if is_constant else None


def shared_reference(view: HistoryView) -> Candidate | None:
    """A distance from the reference that stays exactly 0."""
    readings = view.readings("reference.kl", after=int(limit("REF002", "updates")))
    moves = view.usual("update.ratio") or view.usual("update.kl_forward")
    if len(readings) < 2 or any(reading.value != 0 for reading in readings) or not moves:
        return None
    return suspect("REF002", updates=readings[-1].step, kl=0.0, step=readings[0].step)


def _moves(view: HistoryView) -> float:
    """How far an update usually moves weights, as a share of their size, as far as it is known."""
    return max(view.usual("update.ratio") or 0.0, usual_stride(view))


def moving_reference(view: HistoryView) -> Candidate | None:
    """Rewards of both answers that are exactly 0 in all rows, while updates move the weights."""
    rewards, margins = view.measure("chosen_reward"), view.measure("margin")
    moves = _moves(view)
    n, is_zero = min(len(rewards), len(margins)), not any(rewards) and not any(margins)
    is_long = view.updates >= limit("REF002", "updates") and n >= limit("REF002", "pairs")
    if not is_zero or not is_long or moves < limit("REF002", "moves"):
        return None
    return suspect("REF002/pairs", n=n, margin=0.0, moves=moves)


def compares_scores(view: HistoryView) -> bool:
    """Whether pairs are seen, and no log P of their answers: scores have no reference."""
    return view.first("answers.lowered") is not None and view.first("answers.uneven") is None


def renewed_reference(view: HistoryView) -> Candidate | None:
    """A loss of pairs that comes back to exactly ln 2: the policy is its reference again.

    It does at equal intervals. Now and then, so does a batch whose pairs are all equal.
    """
    is_coin = [abs(loss - math.log(2)) < _EXACT for loss in view.losses]
    first = next((at for at, value in enumerate(is_coin) if not value), len(is_coin))
    places = [at for at in range(first, len(is_coin)) if is_coin[at]]
    n, gaps = len(places), {b - a for a, b in pairwise(places)}
    if not view.facts.on_preferences or n < limit("REF002", "renewed") or len(gaps) > 1:
        return None
    if compares_scores(view):
        return None
    moves = _moves(view)
    # near ln 2 all along, single rows may round to it
    spread = statistics.pstdev(view.losses[first:])
    if moves < limit("REF002", "moves") or spread < limit("REF002", "spread"):
        return None
    return suspect("REF002/renewed", n=n, updates=len(is_coin) - first, moves=moves)


def returned_rewards(view: HistoryView) -> Candidate | None:
    """Rewards of both answers that come back to 0 at the end, although updates moved the weights.

    A reward is beta times the change of log P against the reference. It grows with the way of the
    policy, unless the reference goes the same way: then it falls with the learning rate.
    """
    rewards = zip(view.measure("chosen_reward"), view.measure("rejected_reward"), strict=False)
    sizes = [max(map(abs, pair)) for pair in rewards]
    if len(sizes) < limit("REF002", "rows") or _moves(view) < limit("REF002", "moves"):
        return None
    late, largest = max(sizes[-2:]), max(sizes[:-2])
    if not 0 < late < limit("REF002", "back") * largest:
        return None
    if compares_scores(view) or sizes[0] > limit("REF002", "began") * largest:
        return None
    return suspect("REF002/returned", largest=largest, late=late)


def has_teacher(view: HistoryView) -> bool:
    """Whether targets are shares of several tokens, in a text that the model has not written."""
    single = view.first("targets.single")
    if single is None or single > limit("LOS002", "single") or view.first("answers.own"):
        return False
    return not view.facts.on_rewards and not view.facts.on_preferences


def foreign_teacher(view: HistoryView) -> Candidate | None:
    """A teacher that does not favour the tokens that follow: it reads or writes other ids.

    A student that knows nothing is pulled to its teacher's favourites, and one that knows something
    to what the teacher knows better.
    """
    taught, raised = view.first("targets.taught"), view.first("targets.raised")
    if not has_teacher(view) or (view.start or 0.0) < 0:
        return None  # what is turned round lowers them too
    if (view.first("targets.smoothing") or 0.0) > limit("LOS013", "smoothing"):
        return None  # shares that are nearly even favour no token
    if taught is not None and taught < limit("LOS003", "taught"):
        return suspect("LOS003/teacher", taught=taught, step=0)
    if taught is not None or raised is None or raised >= limit("LOS003", "raised"):
        return None
    return suspect("LOS003/student", raised=raised, step=0)


def even_teacher(view: HistoryView) -> Candidate | None:
    """A teacher that hardly differs from guessing: its temperature makes all tokens alike."""
    entropies, log_zs = (view.readings(id) for id in ("predictions.entropy", "logits.log_z"))
    if not view.losses or not entropies or not log_zs or not has_teacher(view) or not view.fresh:
        return None
    loss, entropy = view.losses[0], entropies[0].value
    if entropy < limit("LOS014", "even") * log_zs[0].value:
        return None  # the student does not guess
    if not 0 <= loss < limit("LOS014", "taught") * entropy:
        return None
    return suspect("LOS014/teacher", loss=loss, entropy=entropy, step=view.steps[0])


def late_teacher(view: HistoryView) -> Candidate | None:
    """A teacher whose favourites stand two places on: its rows were moved against the student's."""
    skipped = view.first("targets.skipped")
    if skipped is None or skipped > limit("LOS002", "share") or not has_teacher(view):
        return None
    return suspect("LOS002/teacher", value=skipped, step=0)


def trained_teacher(view: HistoryView) -> Candidate | None:
    """A teacher that the optimiser trains too: it comes to its student, and teaches nothing."""
    if not view.facts.trains_another or not has_teacher(view):
        return None
    start, end = view.start or 0.0, view.end or 0.0
    has_met = end < limit("REF002", "met") * start
    return suspect("REF002/teacher", start=start, end=end, severity=None if has_met else "note")


def trained_reference(view: HistoryView) -> Candidate | None:
    """A second model that the optimiser trains beside one that learns from pairs of answers."""
    if not view.facts.trains_another or not view.facts.on_preferences:
        return None
    return suspect("REF002/optimiser", n=view.updates, step=0)


def far_policy(view: HistoryView) -> Candidate | None:
    """A large distance from the reference at the end of a training on rewards."""
    if not view.measure("reward"):
        return None
    # a column with this name may also hold sums
    units = (("kl", "kl", "token or answer"), ("sequence_kl", "sequence", "answer"))
    for kind, name, unit in units:
        distance = view.late(kind)
        if distance is not None and distance >= limit("REF003", name):
            return suspect("REF003/log", value=distance, unit=unit)
    return None


def still_kl(view: HistoryView) -> Candidate | None:
    """A distance from the reference that is exactly 0 in all rows, although the policy learns."""
    values, betas = view.measure("kl"), view.measure("beta")
    if len(values) < limit("REF002", "rows") or any(values) or (betas and not any(betas)):
        return None
    if not view.measure("reward"):
        return None  # of preferences it is another number, which KTO cuts off at 0
    norms = [norm for _, norm in view.history.grad_norms]
    has_rate = any(rate for _, rate in view.history.rates)
    if not view.facts.on_rewards or not any(norms) or not has_rate:
        return None
    # some tools write 0 where there is no reference; only a beta says that there is one
    return suspect("REF002/log", n=len(values), kl=0.0, severity=None if betas else "note")


def negative_kl(view: HistoryView) -> Candidate | None:
    """A mean log ratio that stays below 0, which no distance is."""
    values, late = view.measure("sequence_kl"), view.late("sequence_kl")
    if late is None or len(values) < limit("RLH006", "rows") or late > -limit("RLH006", "nats"):
        return None
    return suspect("RLH006", late=late, lowest=min(values))


CAUSES: tuple[Cause, ...] = (
    trained_teacher,
    trained_reference,
    Comparison("REF002/same", "answers.undone", (">", 0), n=1),
    foreign_teacher,
    even_teacher,
    late_teacher,
    other_reference,
    far_start,
    paid_distance,
    negative_beta,
    shared_reference,
    moving_reference,
    renewed_reference,
    returned_rewards,
    far_policy,
    still_kl,
    negative_kl,
    Comparison(
        "REF003",
        "reference.kl",
        (">=", "kl"),
        look="last",
        condition=lambda view: (_first_distance(view) or 0.0) <= 1,
    ),
)

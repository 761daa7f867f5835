"""Faults that model, optimiser and rows of a watched loop show without any reading."""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.vitals import Watch, WatchState
from pellucid.vitals.call.arguments import end_ids, foreign_config, start_ids


def examine_loop(
    watch: Watch, groups: list[dict[str, Any]], declared: Expectations
) -> list[Finding]:
    """The faults of the loop: weights without an optimiser, no update, weights that come apart.

    Args:
        watch: the watch.
        groups: the groups of the optimisers' parameters.
        declared: what you intend of the model.
    """
    watched, findings = watch.state, list[Finding]()
    parameters, model = watched.anatomy.parameters, watched.anatomy.model
    optimised = {id(p): p for group in groups for p in cast("list[nn.Parameter]", group["params"])}
    names = [name for name, parameter in parameters.items() if id(parameter) not in optimised]
    own_ids = set(map(id, model.parameters()))
    strange = [parameter for key, parameter in optimised.items() if key not in own_ids]
    shapes = {parameter.shape for parameter in strange}
    # what another optimiser moves is not left as it was drawn, and what follows copies in another
    # number format belongs to this one
    moved_names = set(watched.moved_by_others)
    is_left = (name not in moved_names and parameters[name].shape in shapes for name in names)
    replaced = [name for name, is_one in zip(names, is_left, strict=True) if is_one]
    names = [name for name in names if not declared.is_frozen(name) and name not in moved_names]
    if watched.optimisers and replaced and not watched.anatomy.is_sharded:
        findings.append(describe("OPT003/watch", n=len(strange), lacks=len(replaced)))
    elif watched.optimisers and names:
        n, total, place = len(names), len(parameters), ", ".join(names[:4])
        findings.append(describe("OPT001/watch", n=n, total=total, place=place))
    elif moved_names:
        place = ", ".join(watched.moved_by_others[:4])
        findings.append(describe("OPT001/others", n=len(moved_names), place=place))
    unlisted = [name for name in watched.unlisted if not declared.is_frozen(name)]
    if unlisted and watch.updates >= limit("OPT001", "updates"):
        place = ", ".join(unlisted[:4])
        findings.append(describe("OPT001/unlisted", n=len(unlisted), place=place))
    if not watch.updates and watched.n_losses >= limit("OPT017", "losses"):
        findings.append(describe("OPT017/watch", losses=watched.n_losses))
    calls, most_calls = watched.calls
    if watch.updates and calls > max(
        limit("OPT017", "updates"), limit("OPT017", "looks") * most_calls
    ):
        step = watch.updates
        findings.append(describe("OPT017/silent", calls=calls, most=most_calls, step=step))
    findings += _compare_prompts(watched)
    findings += _look_at_answers(watched)
    findings += _compare_evaluation(watched)
    if declared.tied is not False and _is_untied(model):
        findings.append(describe("TIE001", n=2, equal=""))
    return findings


def _compare_prompts(watched: WatchState) -> list[Finding]:
    """Answers that say nothing of their own prompts, and much of other rows' prompts."""
    answers = watched.prompt_answers
    matches = None if answers is None else answers.measure()
    if matches is None or matches.own_match >= limit("LOS003", "own"):
        return []
    share = matches.n_others / matches.n_answers
    if share < limit("LOS003", "others"):
        return []
    return [describe("LOS003/prompts", share=share, n=matches.n_answers, own=matches.own_match)]


def _look_at_answers(watched: WatchState) -> list[Finding]:
    """Many answers behind prompts that no token closes, or that stand in their own prompt."""
    answers = watched.prompt_answers
    if answers is None:
        return []
    model = watched.anatomy.model
    ends, starts = end_ids(model), start_ids(model)
    leaks = _describe_above("DAT032", "many", answers.share_copied())
    leaks = leaks or _describe_above("DAT032/label", "many", answers.share_told({*ends, *starts}))
    share = answers.share_ended_by(starts) if ends and _names_its_ends(model) else None
    if share is not None and share > limit("DAT019", "many"):
        return [*leaks, describe("DAT019/start", value=share, ends=", ".join(map(str, ends)))]
    if answers.are_own:
        return leaks  # a limit of length has ended them
    unclosed = _describe_above("DAT019/all", "many", answers.share_without_end(ends))
    unclosed = unclosed or _describe_above("DAT019/cut", "cut", answers.share_cut_off(ends))
    return unclosed + leaks


def _names_its_ends(model: nn.Module) -> bool:
    """Whether a config has other ids for the ends of a text than all configs of its class."""
    list_differences: Any = getattr(foreign_config(model), "to_diff_dict", None)
    differences: Any = () if list_differences is None else list_differences()
    return "bos_token_id" in differences or "eos_token_id" in differences


def _describe_above(key: str, limit_name: str, share: float | None) -> list[Finding]:
    """The finding of a share that is known and above its limit."""
    is_above = share is not None and share > limit(key.partition("/")[0], limit_name)
    return [describe(key, value=share)] if is_above else []


def _compare_evaluation(watched: WatchState) -> list[Finding]:
    """Rows of evaluation that begin in another form than those of training, or read its targets."""
    rows = watched.row_starts
    if rows is None:
        return []
    texts, starts = rows.exchanged(), rows.compare(start_ids(watched.anatomy.model))
    readings = {"DAT013/evaluation": texts, "DAT036": starts}
    return [describe(key, **reading._asdict()) for key, reading in readings.items() if reading]


def _is_untied(model: Any) -> bool:
    """Whether embedding and head should be one tensor, by a Hugging Face config, and are two."""
    if getattr(getattr(model, "config", None), "tie_word_embeddings", None) is not True:
        return False
    ends = [getattr(model, f"get_{end}_embeddings", lambda: None)() for end in ("input", "output")]
    if type(ends[0]) is not nn.Embedding or type(ends[1]) is not nn.Linear:
        return False  # an adapter may stand in for one of them
    return ends[0].weight is not ends[1].weight

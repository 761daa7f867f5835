"""Keyword arguments and attributes of 0.1, which 0.2 takes and gives with one warning.

Each room's door puts them on what it exports. The modules behind the door know no old word.

Must not know: the meaning of a word.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pellucid.old_names import warn_renamed

_PROBES = """
    batch causality chance documents dtypes finite gradients import initial_loss labels loss moves
    overfit padding positions receptive_field rotary supervised ties weights
"""
#: By room: a public function, class or method, and its words as old=new.
OLD_WORDS: dict[str, dict[str, str]] = {
    "batches": {"Batch": "changed=map_tensors"},
    "checkpoints.huggingface": {
        "Published": "left_out=ignored_tensors",
        "Published.tensor": "ours=parameter",
    },
    "config": {"decode": "at=path", "overlay": "over=changes"},
    "counting": {"memory": "asked=frozen_parameters"},
    "data": {
        "ChatTemplate.conversation": "where=location",
        "ChatTemplate.prompt": "where=location",
        "ClassLabels": "several=multi_label",
        "EncodedCounts": "changed=lossy in_changed=in_lossy",
        "EncodedCounts.add": "each=encoding",
        "Example": "kept=row_json",
        "Labelled": "said=choices",
        "Masking": "behind=after",
        "Ragged": "some=take",
        "DividedCorpus": "by=split_by",
        "Row": "where=location",
        "Split": "by=split_by",
        "Template": "said=origin",
        "fingerprint": "remembered=hash_cache",
        "part": "found=corpus_survey",
    },
    "datasets": {"Dataset": "what=description"},
    "diagnosis": {
        "Advance": "of=n_forks what=label done=step",
        "Checked": "what=target",
        "Examples": "on=to_device",
        "Fix": "does=change why=reason needs=start",
        "Reading": "where=place",
        "Trial": "prescription=fix",
        "build_finding": "what=message",
        "prove": "path=target",
        **{f"probe_{name}": "subject=adapter" for name in _PROBES.split()},
    },
    "diagnosis.causes": {
        "Candidate": "what=message where=place",
        "Candidate.finding": "more=symptoms",
        "HistoryView": "of=readings times=growth settled=warm_up_end",
        "HistoryView.highest": "until=last_step",
        "HistoryView.usual": "until=last_step",
        "find_candidates": "course=view asking=runner",
    },
    "display": {"Panel.heed": "asked=stop_requested", "can_redraw": "out=stream"},
    "drawing": {
        "Box": "says=lines",
        "Drawing": "says=sentence",
        "place": "beside=side_by_side",
    },
    "explain": {
        "Gradients": "of=gradient",
        "Trace": "look=attention passed=stack_pass went_back=has_gradients",
    },
    "explain.chapters": {
        "ChapterEntry": "about=summary once=at_one_place against=build_comparison",
        "pooled_map": "chosen=selection most=max_cells",
    },
    "explain.receipts": {
        "activation_receipt": "chosen=selection",
        "embedding_receipt": "chosen=selection",
        "linear_receipt": "given=input_address made=output_address",
        "norm_receipt": "given=input_address made=output_address",
        "out_receipt": "chosen=selection",
        "position_receipt": "chosen=selection",
        "product_receipt": "chosen=selection",
        "residual_receipt": "chosen=selection found=stream_sum",
        "rotation_receipt": "chosen=selection which=vector_name",
        "score_receipt": "chosen=selection",
        "weight_receipt": "chosen=selection",
    },
    "generation": {"Reader.read": "chosen=tokens"},
    "inference": {
        "ranked": "like=query",
        "Prediction": "seen=n_tokens seen_from=window_start",
        "Score": "changed=is_altered",
        "ScoredToken": "seen_from=window_start",
    },
    "maths": {"confusion_matrix": "said=predicted", "repetition_penalty": "seen=present"},
    "model": {
        "KeyValueCache": "once=compute_once",
        "NoCache": "once=compute_once",
        "View": "within=in_window",
    },
    "native": {"activation": "way=direction"},
    "optim": {
        "Group": "what=label",
        "assemble_optimiser": "named=parameters",
        "group": "named=parameters",
        "penalties_of": "named=parameters",
    },
    "presets": {"ObjectivePreset": "what=summary"},
    "report": {"Series": "left_out=n_hidden", "vitals_page": "said=signs"},
    "runs": {
        "CorpusReport": "changed=changed_documents",
        "KillProof": "holds=is_equal",
        "ResumeProof": "holds=is_equal",
        "RowsEvaluation": "said=notes written=generated",
        "count_corpus": "now=notify",
        "ranked": "like=query",
    },
    "tasks": {
        "GeneratedText": "given=prompt",
        "Task": "judge=evaluate_examples classify=measure_classes write=generate",
        "assemble_task": "given=inputs",
    },
    "saved_runs": {"RunFolder": "aside=non_finite"},
    "textbook": {
        "Computed": "shown=shown_text",
        "Entry": "says=summary",
        "Misnomer": "says=explanation meant=suggestions",
        "Question": "asks=text look=expressions holds=statement",
    },
    "tokenizers": {
        "Framing.ids_of": "called=name",
        "Framing.ids_within": "called=name",
        "Tokenizer.encode_prompt": "called=name",
        "Tokenizer.to_published_json": "begins=add_begin ends=add_end",
    },
    "training": {"Job": "aside=non_finite_folder"},
    "vitals": {
        "AttentionStats": "seen=n_visible",
        "Cost": "looks=n_readings told=message",
        "Point": "where=place",
        "Rule": "told=description why=describe_breach",
        "ScoreBounds": "at_least=lower at_most=upper",
        "Sign": "where=place",
        "Watch": "go_on=resume seen=state",
        "WatchState": "told=n_losses",
        "log_to": "where=target",
        "normalised": "looks=stats",
    },
    "web": {
        "RunRegistry": "given=sources about=summarise listed=describe",
        "Session": "kept=max_sentences",
        "Session.keep": "told=sentence",
        "open_session": "given=runs",
        "parse_request": "said=raw",
    },
}


def take_old_words(room: str, namespace: dict[str, Any]) -> None:
    """Let what a room exports take its old keywords and give its old attributes.

    Args:
        room: name of its module, such as "pellucid.config".
        namespace: its globals, once all is imported.
    """
    for path, words in OLD_WORDS[room.removeprefix("pellucid.")].items():
        new_words = dict(word.split("=") for word in words.split())
        name, _, method = path.partition(".")
        public: Any = namespace[name]
        if method:
            setattr(public, method, _translating(getattr(public, method), path, new_words))
        elif isinstance(public, type):
            _translate_constructor(public, path, new_words)
            public.__getattr__ = _attribute_finder(path, new_words)  # type: ignore[attr-defined]
        else:
            namespace[name] = _translating(public, path, new_words)


def _translate_constructor(kind: Any, path: str, new_words: Mapping[str, str]) -> None:
    """Take old keywords, if some of the words are arguments of the constructor."""
    # a named tuple has no constructor but `__new__`, and some classes have neither
    name = "__new__" if kind.__init__ is object.__init__ else "__init__"
    constructor = getattr(kind, name)
    # the names in its code: to build its signature takes longer, at every start
    code = getattr(inspect.unwrap(constructor), "__code__", None)
    if code is not None and not set(code.co_varnames).isdisjoint(new_words.values()):
        translating = _translating(constructor, path, new_words)
        setattr(kind, name, staticmethod(translating) if name == "__new__" else translating)


def _translating(
    function: Callable[..., Any], path: str, new_words: Mapping[str, str]
) -> Callable[..., Any]:
    """A function that takes old keywords too."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for old in keywords.keys() & new_words.keys() if keywords else ():
            warn_renamed(f"the argument {old} of {path}", new_words[old])
            keywords[new_words[old]] = keywords.pop(old)
        return function(*args, **keywords)

    # a public equation says by this name which formula stands behind its door
    call.__wrapped__ = getattr(function, "__wrapped__", function)
    call.old_words = new_words  # type: ignore[attr-defined]
    return call


def _attribute_finder(path: str, new_words: Mapping[str, str]) -> Callable[[object, str], Any]:
    """The `__getattr__` of a class."""

    def find(owner: object, name: str) -> Any:
        if name not in new_words:
            raise AttributeError(f"{path!r} object has no attribute {name!r}")
        warn_renamed(f"{path}.{name}", f"{path}.{new_words[name]}")
        return getattr(owner, new_words[name])

    find.old_words = new_words  # type: ignore[attr-defined]
    return find

"""Public names of 0.1 still work in 0.2: under the old name too, with one warning."""

from __future__ import annotations

import inspect
import warnings
from enum import EnumType
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pellucid.drawing import Box
from pellucid.old_names import OLD_NAMES
from pellucid.runs import ResumeProof
from pellucid.runs.resolve_config import RunChoices

SUPPORT = Path(__file__).parent / "support"
PUBLIC = (SUPPORT / "public_names_0_1.txt").read_text("utf-8").split()
#: Functions with their parameters, and attributes of classes.
WORDS = (SUPPORT / "public_words_0_1.txt").read_text("utf-8").splitlines()
#: Words of 0.1 that are gone, by the reason.
GONE = {
    "a protocol: `pellucid.trace` makes its objects": (
        "explain.Gradients(trace=)",
        "explain.Gradients(watch=)",
        "explain.Gradients.may_hold",
        "explain.Trace(model=)",
        "explain.Trace(run=)",
        "explain.Trace(scales=)",
        "explain.Trace(sentence=)",
        "explain.Trace.backward(watch=)",
        "explain.Trace.face",
    ),
    "a protocol: `isinstance` no longer looks for it": ("batches.LanguageModel.head_bias",),
    "a protocol: forms of rows have `choices`": ("examples.Form.said",),
    "the manifest holds the facts of both kinds of data": (
        "examples.StoredExamples(facts=)",
        "examples.StoredExamples.facts",
    ),
    "the arrays of examples, of which a document is one": (
        "text.Shard(starts=)",
        "text.Shard(tokens=)",
    ),
    "the inputs hold one `data`, whatever it came from": (
        "runs.tasks.Given.examples",
        "runs.tasks.Given.text",
    ),
    "a function returns the function that makes batches": (
        "text.MaskedOrder.batch",
        "text.Order.batch",
        "text.SpanOrder.batch",
    ),
    "an object sets it in its constructor": (
        "examples.Bucketed.tokens_per_row",
        "examples.Packed.tokens_per_row",
    ),
    "the registry of runs opens them": ("web.Session(opener=)",),
    "a field of a C structure, called `program`": ("native.Call.tape",),
    "a field of a C structure, now one number for each row": ("native.Call.position",),
    "the entry of a stack holds its norm": ("model.Stack(input_norm=)",),
    "looked up on the class, which has `from_model`": ("objectives.LazyLogits.of",),
    "memory is counted from the config, before there is a task": (
        "runs.tasks.Task(asked=)",
        "runs.tasks.Task.asked",
    ),
}


def find_public(path: str) -> Any:
    """A public thing of 0.1 by its path: in a room, or in a class of a room."""
    names = path.split(".")
    public: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for count, name in enumerate(names, start=1):
            if not hasattr(public, name):
                public = import_module(".".join(names[:count]))
            else:
                public = getattr(public, name)
    return public


def test_every_public_name_of_0_1_still_works() -> None:
    missing: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for public_name in PUBLIC:
            room, _, name = public_name.rpartition(".")
            if not hasattr(import_module(room), name):
                missing.append(public_name)
    assert len(PUBLIC) > 900
    assert missing == []


@pytest.mark.parametrize("room", sorted(OLD_NAMES))
def test_an_old_name_is_the_new_thing_and_warns_once(room: str) -> None:
    for name, new in OLD_NAMES[room].items():
        new_room, _, new_name = f"pellucid.{new}".rpartition(".")
        with pytest.warns(FutureWarning, match=f"{name} is {new_room}.{new_name} now") as caught:
            old_value = getattr(import_module(f"pellucid.{room}"), name)
        assert len(caught) == 1
        assert old_value is getattr(import_module(new_room), new_name)


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'pellucid\.text' has no attribute 'Nothing'"):
        import_module("pellucid.text").Nothing  # noqa: B018


def test_an_attribute_of_0_1_still_works_and_warns_once() -> None:
    proof = ResumeProof(
        from_step=0, stopped_at=1, to_step=2, losses_equal=True, weights_equal=False
    )
    with pytest.warns(
        FutureWarning, match="ResumeProof.holds is ResumeProof.is_equal now"
    ) as caught:
        assert proof.holds is proof.is_equal is False  # pyright: ignore
    assert len(caught) == 1


def parameters_of(public: Any) -> set[str]:
    """What a function or a class takes; of a C structure, its fields."""
    if hasattr(public, "_fields_"):
        return {field[0] for field in public._fields_}
    if isinstance(public, EnumType):  # its signature is another one in each Python
        public = EnumType.__call__
    return set(inspect.signature(public).parameters)


def has(parent: object, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return hasattr(parent, name)


def old_words(target: object) -> set[str]:
    """The words of 0.1 that a function takes, or that an object of a class gives."""
    return set(getattr(target, "old_words", {}))


def test_every_keyword_and_attribute_of_0_1_still_works() -> None:
    missing: list[str] = []
    for line in WORDS:
        path, is_call, parameters = line.partition("()")
        owner, _, name = path.rpartition(".")
        parent: Any = find_public(owner)
        if not has(parent, name):
            set_by_objects = vars(parent).get("__annotations__", {}).keys()
            words = old_words(getattr(parent, "__getattr__", None)) | set_by_objects
            if name not in parameters_of(parent) | words:
                missing.append(path)
        elif is_call:
            public = find_public(path)
            old_parameters = old_words(public)
            if isinstance(public, type):
                old_parameters = old_words(public.__init__) | old_words(public.__new__)
            words = parameters_of(public) | old_parameters
            if path in ("pellucid.train", "pellucid.runs.train"):  # options of a run, as keywords
                words |= RunChoices.__annotations__.keys()
            missing += [f"{path}({word}=)" for word in parameters.split() if word not in words]
    removed_names = [f"pellucid.{name}" for names in GONE.values() for name in names]
    assert set(missing) ^ set(removed_names) == set()


def test_an_old_keyword_and_its_attribute_warn_once_each() -> None:
    with pytest.warns(FutureWarning, match="the argument says of Box is lines now") as caught:
        box = Box(name="softmax", says=("over the keys",))  # pyright: ignore
    assert len(caught) == 1
    with pytest.warns(FutureWarning, match=r"Box\.says is Box\.lines now") as caught:
        assert box.says == box.lines == ("over the keys",)  # pyright: ignore
    assert len(caught) == 1
    with pytest.raises(AttributeError, match="'Box' object has no attribute 'words'"):
        box.words  # noqa: B018  # pyright: ignore

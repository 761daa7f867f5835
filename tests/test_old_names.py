"""What was public in 0.1 is still there in 0.2: under its old name too, with one warning."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path

import pytest

from pellucid.old_names import OLD_NAMES
from pellucid.runs import ResumeProof

PUBLIC = (Path(__file__).parent / "support" / "public_names_0_1.txt").read_text("utf-8").split()


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

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from pellucid import config
from pellucid.data import Row, assemble_columns
from pellucid.errors import TextError
from pellucid.tokenizers import Framing, Tokenizer
from support.rows import TOKENIZER, examples_of, row, rows

PATHS = ("data.jsonl",)
CHATS = config.Conversations(paths=PATHS)
PAIRS = config.Pairs(paths=PATHS)
LABELLED = config.Labelled(paths=PATHS)
PREFERENCES = config.Preferences(paths=PATHS)
PROMPTS = config.Prompts(paths=PATHS)


def decode_ids(ids: list[int]) -> str:
    return TOKENIZER.decode(ids)


def supervised(ids: Any) -> list[int]:
    return [
        i for i, is_supervised in zip(ids["ids"], ids["supervised"], strict=True) if is_supervised
    ]


# conversations


def test_a_prompt_and_its_answer_become_ids_of_which_the_answer_is_supervised() -> None:
    (example,), census, facts = examples_of(CHATS, rows({"prompt": "Hi", "answer": "Yo"}))
    assert example.ids["ids"][0] == TOKENIZER.begin_id
    assert decode_ids(example.ids["ids"]) == "### Instruction:\nHi\n\n### Response:\nYo"
    assert supervised(example.ids) == [*TOKENIZER.encode("Yo"), TOKENIZER.end_id]
    assert example.group == "Hi"
    assert example.row == 1
    assert facts == ["prompt: prompt", "answer: answer", "template: pellucid's plain template"]
    assert (census.supervised, census.tokens) == (3, len(example.ids["ids"]))


def test_chats_of_two_conventions_are_the_same() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    others = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]
    (first_example,), _, _ = examples_of(CHATS, rows({"messages": messages}))
    (second_example,), _, _ = examples_of(CHATS, rows({"conversations": others}))
    assert first_example == second_example


def test_a_chosen_column_of_messages_is_read_whatever_other_columns_there_are() -> None:
    prompts_config = config.Conversations(paths=PATHS, messages="talk")
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    (one_row,) = rows({"talk": talk, "prompt": "a", "answer": "b"})
    columns = assemble_columns(prompts_config, one_row)
    assert columns.choices == ["messages: talk"]
    (example,), _, _ = examples_of(prompts_config, [one_row])
    assert supervised(example.ids) == [*TOKENIZER.encode("Yo"), TOKENIZER.end_id]


def test_what_has_no_prompt_or_no_answer_is_dropped_and_counted_with_its_row() -> None:
    good = {"prompt": "Hi", "answer": "Yo"}
    all_rows = rows(good, {"prompt": " ", "answer": "Yo"}, {"prompt": "a", "answer": None}, good)
    examples, census, _ = examples_of(CHATS, all_rows)
    assert [example.row for example in examples] == [1, 4]
    assert census.dropped == {"it has no prompt": 1, "it has no answer": 1}
    assert "dropped 1: it has no prompt (data.jsonl, row 2)" in census.lines()
    assert json.loads(json.dumps(census.table()))["rows"] == 4


def test_what_does_not_fit_is_cut_or_dropped_and_never_in_silence() -> None:
    all_rows = rows({"prompt": "Hi", "answer": "a" * 50}, {"prompt": "H" * 50, "answer": "a"})
    room = len("B### Instruction:\nHi\n\n### Response:\n")
    examples, census, _ = examples_of(CHATS, all_rows, context_length=room + 3)
    assert [len(example.ids["ids"]) for example in examples] == [room + 3]
    assert supervised(examples[0].ids) == TOKENIZER.encode("aaa")
    assert examples[0].truncated
    assert not examples[0].ends
    assert (census.truncated, census.endless, census.examples) == (1, 1, 1)
    (reason,) = census.dropped
    assert "prompt fills the window" in reason
    with pytest.raises(TextError, match=r"no example is left.*row 1; data.jsonl, row 2"):
        examples_of(CHATS, all_rows, context_length=room)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ("Hi", "holds no messages but 'Hi'"),
        (["Hi"], "message 1: expected an object with role and content"),
        ([{"content": "Hi"}], "message 1: its role is None"),
        ([{"role": "user<|x|>", "content": "Hi"}], "its role is 'user<|x|>'"),
        ([{"role": "user", "content": 3}], "message 1: its content is not a text but 3"),
        ([{"role": "user", "content": None}], "message 1: its content is not a text but None"),
        ([{"role": "user", "content": "a", "<k>": "b"}], "the key '<k>' is no name"),
    ],
)
def test_a_broken_message_is_refused_with_row_and_number(messages: Any, expected: str) -> None:
    fine = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    with pytest.raises(TextError, match=r"data.jsonl, row 2") as refused:
        examples_of(CHATS, rows({"messages": fine}, {"messages": messages}))
    assert expected in str(refused.value)


def test_a_chat_without_an_answer_is_dropped() -> None:
    fine = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    examples, census, _ = examples_of(
        CHATS, rows({"messages": fine}, {"messages": fine[:1]}, {"messages": []})
    )
    assert len(examples) == 1
    assert census.dropped == {"it has no answer": 2}


def test_the_template_of_the_tokenizers_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    )
    (example,), _, facts = examples_of(
        CHATS, rows({"prompt": "Hi", "answer": "Yo"}), folder=tmp_path
    )
    assert decode_ids(example.ids["ids"]) == "[Hi][Yo]"
    assert facts[-1] == f"template: {tmp_path / 'chat_template.jinja'}"


# pairs


def test_a_pair_is_a_framed_source_and_a_target_that_ends() -> None:
    (example,), _, _ = examples_of(PAIRS, rows({"en": "Go.", "fr": "Va !"}))
    assert example.ids["source"] == Framing(TOKENIZER).ids_of("Go.")
    assert example.ids["target"] == [*TOKENIZER.encode("Va !"), TOKENIZER.end_id]
    assert example.group == "Go."


def test_a_target_ends_also_where_the_same_token_begins_a_text() -> None:
    inner = tokenizers.Tokenizer.from_str(TOKENIZER.to_json())
    end = "<|end_of_text|>"
    shared_end = Tokenizer(inner, (end, end))
    (example,), _, _ = examples_of(PAIRS, rows({"en": "Go.", "fr": "Va"}), tokenizer=shared_end)
    assert example.ids["target"][-1] == shared_end.end_id
    assert example.ids["source"].count(shared_end.begin_id) == 1


def test_a_source_that_is_cut_keeps_its_end() -> None:
    all_rows = rows({"en": "abcdefgh", "fr": "x"}, {"en": "", "fr": "x"}, {"en": "x", "fr": None})
    (example,), census, _ = examples_of(PAIRS, all_rows, context_length=5)
    source_ids = Framing(TOKENIZER).ids_of("abc")
    assert example.ids["source"] == source_ids
    assert example.truncated
    assert census.dropped == {"it has no source": 1, "it has no target": 1}


# labels


def test_classes_are_found_in_the_data_and_sorted_without_blanks() -> None:
    all_rows = rows(
        {"text": "a", "label": " spam"}, {"text": "b", "label": "ham "}, {"text": "c", "label": ""}
    )
    examples, census, facts = examples_of(LABELLED, all_rows)
    assert [example.ids["label"] for example in examples] == [[1], [0]]
    assert examples[0].ids["ids"] == Framing(TOKENIZER).ids_of("a")
    assert facts[-1] == "classes: ham, spam (each text has one)"
    assert census.dropped == {"it has no label": 1}


def test_numbers_are_classes_in_the_order_of_their_size() -> None:
    all_rows = rows(*({"text": "a", "label": n} for n in (10, 9, 2)))
    examples, _, facts = examples_of(LABELLED, all_rows)
    assert facts[-1].startswith("classes: 2, 9, 10")
    assert [example.ids["label"] for example in examples] == [[2], [1], [0]]
    with pytest.raises(TextError, match=r"is 0\.5, expected the name of a class"):
        examples_of(LABELLED, rows({"text": "a", "label": 0.5}))


@pytest.mark.parametrize("parted", [True, False])
def test_several_labels_are_a_one_for_each_class_that_is_named(parted: bool) -> None:
    values: list[list[str]] = [["b", "a"], ["c"], ["a"]]
    kind = config.Labelled(paths=PATHS, separator=";") if parted else LABELLED
    all_rows = rows(*({"text": "t", "label": "; ".join(v) if parted else v} for v in values))
    examples, census, _ = examples_of(kind, all_rows)
    assert [example.ids["label"] for example in examples] == [[1, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert census.labels == {0: 2, 1: 1, 2: 1}


def test_a_label_outside_the_given_classes_is_refused_and_an_empty_class_is_said() -> None:
    all_rows = rows({"text": "a", "label": "ham"}, {"text": "b", "label": "eggs"})
    with pytest.raises(TextError, match=r"row 2: the label 'eggs' is none of the classes"):
        examples_of(LABELLED, all_rows, classes=["ham", "spam"])
    classes = ["eggs", "ham", "spam"]
    _, census, _ = examples_of(LABELLED, all_rows, classes=classes)
    assert "the class 'spam' has no example" in census.lines(classes)
    with pytest.raises(TextError, match="name 1 class"):
        examples_of(LABELLED, all_rows[:1])


# preferences


def test_two_answers_go_on_from_one_prompt() -> None:
    all_rows = rows({"instruction": "Add.", "input": "1+1", "chosen": "2", "rejected": "3, fool"})
    (example,), _, _ = examples_of(PREFERENCES, all_rows)
    assert decode_ids(example.ids["prompt"]) == "### Instruction:\nAdd.\n\n1+1\n\n### Response:\n"
    assert example.ids["chosen"] == [*TOKENIZER.encode("2"), TOKENIZER.end_id]
    assert example.ids["rejected"] == [*TOKENIZER.encode("3, fool"), TOKENIZER.end_id]
    (prompt,), _, _ = examples_of(PROMPTS, all_rows)
    assert prompt.ids["prompt"] == example.ids["prompt"]


def test_whole_chats_are_parted_into_their_shared_prompt_and_the_last_answers() -> None:
    shared = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yo"},
        {"role": "user", "content": "More"},
    ]
    good, bad = ({"role": "assistant", "content": content} for content in ("good", "bad"))
    all_rows = rows({"chosen": [*shared, good], "rejected": [*shared, bad]})
    (first_example,), _, _ = examples_of(PREFERENCES, all_rows)
    assert decode_ids(first_example.ids["prompt"]).endswith(
        "Yo\n\n### Instruction:\nMore\n\n### Response:\n"
    )
    assert [decode_ids(first_example.ids[side]) for side in ("chosen", "rejected")] == [
        "good",
        "bad",
    ]
    separate = rows({"prompt": shared, "chosen": [good], "rejected": [bad]})
    (second_example,), _, _ = examples_of(PREFERENCES, separate)
    assert first_example.ids == second_example.ids
    spelled_twice = rows({"prompt": "More", "chosen": [*shared, good], "rejected": [*shared, bad]})
    assert examples_of(PREFERENCES, spelled_twice)[0][0].ids == first_example.ids


def test_pairs_that_teach_nothing_are_dropped_and_counted() -> None:
    fine = {"prompt": "Hi", "chosen": "a", "rejected": "b"}
    all_rows = rows(
        fine,
        {"prompt": "Hi", "chosen": "a", "rejected": "a"},
        {"prompt": "", "chosen": "a", "rejected": "b"},
        {"prompt": "Hi", "chosen": "a", "rejected": None},
        {"prompt": "Hi", "chosen": "x" * 400 + "a", "rejected": "x" * 400 + "b"},
        {"prompt": "H" * 400, "chosen": "a", "rejected": "b"},
    )
    examples, census, _ = examples_of(PREFERENCES, all_rows, context_length=300)
    assert [example.row for example in examples] == [1]
    assert sum(census.dropped.values()) == 5
    assert census.dropped["chosen and rejected are the same"] == 1
    assert any("as far as they fit" in reason for reason in census.dropped)


def test_an_answer_that_is_the_whole_of_its_list_is_not_taken_for_the_prompt() -> None:
    question, answer = (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "a"},
    )
    other = {"role": "assistant", "content": "b"}
    fine = {"chosen": [question, answer], "rejected": [question, other]}
    all_rows = rows(fine, {"chosen": [question, answer], "rejected": [question]})
    _, census, _ = examples_of(PREFERENCES, all_rows)
    assert list(census.dropped) == ["it has no prompt"]


# prompts


def test_a_prompt_keeps_its_whole_row() -> None:
    (example,), _, _ = examples_of(PROMPTS, rows({"prompt": "1+1?", "solution": 2}))
    assert json.loads(example.row_json or "") == {"prompt": "1+1?", "solution": 2}
    _, census, _ = examples_of(
        PROMPTS, rows({"prompt": "a"}, {"prompt": "b" * 99}), context_length=60
    )
    assert sum(census.dropped.values()) == 1


# all of them


def test_texts_for_a_tokenizer_are_what_the_columns_say() -> None:
    def texts(kind: Any, first_row: Row) -> list[str]:
        return assemble_columns(kind, first_row).texts(first_row)

    assert texts(CHATS, row(prompt="a", answer="b")) == ["a", "b"]
    assert texts(PAIRS, row(source="a", target="b")) == ["a", "b"]
    assert texts(LABELLED, row(text="a", label="b")) == ["a"]
    assert texts(PREFERENCES, row(prompt="a", chosen="b", rejected="c")) == ["a", "b", "c"]
    assert texts(PROMPTS, row(prompt="a")) == ["a"]


def test_a_csv_without_the_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfsms,kind\r\nHi,ham\r\n")
    with pytest.raises(TextError, match=r"usual name for the label .* it has: 'sms', 'kind'"):
        examples_of(config.Labelled(paths=(str(tmp_path / "a.csv"),)))


def test_public_rows_become_examples(shared_data: Path) -> None:
    sft = str(shared_data / "rasbt-sft" / "instruction-data.json")
    examples, census, _ = examples_of(config.Conversations(paths=(sft,)), context_length=1024)
    assert (census.rows, census.truncated, dict(census.dropped)) == (1100, 0, {})
    assert all(supervised(example.ids)[-1] == TOKENIZER.end_id for example in examples)
    preference = str(shared_data / "rasbt-preference" / "instruction-data-with-preference.json")
    _, census, _ = examples_of(config.Preferences(paths=(preference,)), context_length=1024)
    assert census.rows == 1100
    assert census.examples + sum(census.dropped.values()) == 1100
    sms = str(shared_data / "sms-spam" / "SMSSpamCollection")
    kind = config.Labelled(paths=(sms,), text="2", label="1")
    examples, census, facts = examples_of(kind, context_length=1024)
    assert census.labels == {0: 4827, 1: 747}
    assert facts[-1] == "classes: ham, spam (each text has one)"


def test_a_chosen_prompt_is_read_though_there_are_messages_too() -> None:
    (one_row,) = rows({"sum": "1+1?", "messages": [{"role": "user", "content": "Hi"}]})
    columns = assemble_columns(config.Prompts(paths=PATHS, prompt="sum"), one_row)
    assert columns.choices == ["prompt: sum"]


def test_a_row_whose_prompt_is_empty_is_dropped_with_its_reason() -> None:
    _, census, _ = examples_of(PROMPTS, rows({"prompt": "Hi"}, {"prompt": []}))
    assert census.dropped == {"it has no prompt": 1}

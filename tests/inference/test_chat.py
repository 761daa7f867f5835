"""What ends an answer, and what a conversation that is too long leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid import runs
from pellucid.errors import PellucidError
from pellucid.inference import Chat, end_ids, has_chat_template
from pellucid.runs import Run
from support.life import pretrain

#: A template that ends a turn with a special token of its own, outside the answer's text.
TURNS = """\
{%- for message in messages -%}
{{ '<|begin_of_text|>' if loop.first }}{{ message['role'] + ': ' + message['content'] }}
{{- '<|end_of_text|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'assistant: ' }}{%- endif -%}
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return runs.load(pretrain(tmp_path_factory.mktemp("chat") / "base", steps=1))


def test_a_run_without_a_template_is_a_base_model_and_with_one_it_is_not(base: Run) -> None:
    assert not has_chat_template(base.folder)
    file = base.folder / "chat_template.jinja"
    file.write_text(TURNS, encoding="utf-8")
    try:
        assert has_chat_template(base.folder)
    finally:
        file.unlink()


def test_an_answer_ends_at_the_token_of_the_template_and_at_those_of_the_files(
    base: Run, tmp_path: Path
) -> None:
    from dataclasses import replace

    tokenizer = base.require_tokenizer()
    begin = tokenizer.token(tokenizer.begin_id)
    # here a turn ends with the begin token, which is not the tokenizer's end
    template = TURNS.replace("<|end_of_text|>", begin)
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    run = replace(base, folder=tmp_path)
    chat = Chat(run)
    assert chat.ends == {tokenizer.end_id, tokenizer.begin_id}
    chat.close()
    settings = {"eos_token_id": [5, 6], "bos_token_id": 1}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 7}), encoding="utf-8")
    assert end_ids(run) == {tokenizer.end_id, 5, 6, 7}
    (tmp_path / "generation_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(PellucidError, match=r"generation_config\.json"):
        end_ids(run)


def test_the_oldest_turns_are_left_out_and_never_the_last_message(base: Run) -> None:
    chat = Chat(base)
    turns = [
        {"role": role, "content": f"say red {n}"}
        for n in range(3)
        for role in ("user", "assistant")
    ][:-1]
    context = base.model.context_length
    chat_tokens = chat.tokens(turns)
    assert len(chat_tokens) > context
    fitted = chat.fit([{"role": "system", "content": "hi"}, *turns], room=10)
    assert fitted.n_dropped in (2, 4)
    assert len(fitted.ids) <= context - 10
    text = base.require_tokenizer().decode(fitted.ids)
    assert text.startswith("hi")
    assert "say red 2" in text
    with pytest.raises(PellucidError, match="your message has"):
        chat.fit([{"role": "user", "content": "x" * 200}], room=10)
    chat.close()

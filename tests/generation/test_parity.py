"""The same weights write, fill and embed the same as the reference implementation."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pellucid
from pellucid import config
from pellucid.generation import Beams, Sampling, beam_search_ids, continue_tokens, encode
from pellucid.model import Transformer, assemble
from pellucid.tokenizers import Framing
from support.kinds import write_bert_tokenizer
from support.models import BASE
from support.reference import both, quiet

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

END, PAD, MOST = 1, 0, 12
SOURCES = [[5, 9, 11, 3, END], [7, 7, 20, 4, 15, 6, 28, END], [12, END]]
SEARCHES = [
    {"n_beams": 2, "n_best": 1},
    {"n_beams": 4, "n_best": 4, "length_penalty": 0.6},
    {"n_beams": 4, "n_best": 3, "length_penalty": 0.0, "early_stopping": True},
    {"n_beams": 5, "n_best": 5, "length_penalty": 2.0, "early_stopping": "never"},
    {"n_beams": 3, "n_best": 3, "length_penalty": -0.5, "early_stopping": "never"},
    {"n_beams": 4, "n_best": 2, "early_stopping": True, "min_new_tokens": 4},
    {"n_beams": 3, "n_best": 3, "length_penalty": 1.7, "early_stopping": False},
]


def ends(found: list[list[Any]]) -> list[int]:
    """Three tokens that the model likes to write, neither first nor last: each is made the end.

    Random models have no end of their own; with these, searches end in every way there is.
    """
    counts = Counter(
        token for texts in found for text in texts for token in text.ids[2:-2] if token != PAD
    )
    return [token for token, _ in counts.most_common(3)]


def theirs_found(model: Any, beams: dict[str, Any], end: int, **inputs: Any) -> Any:
    n_best = beams.get("n_best", 1)
    arguments = {
        "num_beams": beams["n_beams"],
        "num_return_sequences": n_best,
        "length_penalty": beams.get("length_penalty", 1.0),
        "early_stopping": beams.get("early_stopping", False),
        "min_new_tokens": beams.get("min_new_tokens", 0) or None,
    }
    outputs = model.generate(
        **inputs,
        **arguments,
        max_new_tokens=MOST,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=PAD,
        output_scores=True,
        return_dict_in_generate=True,
    )
    return outputs.sequences.reshape(
        -1, n_best, outputs.sequences.shape[1]
    ), outputs.sequences_scores


def the_same(found: list[list[Any]], sequences: Any, scores: Any, start: int, end: int) -> None:
    for texts, rows in zip(found, sequences.tolist(), strict=True):
        for text, row in zip(texts, rows, strict=True):
            row_ids = row[start:]
            assert list(text.ids) == row_ids[: len(text.ids)]
            # what theirs is filled up with is the end where the padding is 0
            assert set(row_ids[len(text.ids) :]) <= {end}
    own_scores = [text.score for texts in found for text in texts]
    np.testing.assert_allclose(own_scores, scores, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("beams", SEARCHES, ids=str)
@pytest.mark.parametrize("case", ["t5", "t5 1.1", "bart"])
def test_beam_search_of_an_encoder_decoder_equals(
    case: str, beams: dict[str, Any], tmp_path: Path
) -> None:
    reference_model, model = saved(case, tmp_path)
    longest = max(len(source) for source in SOURCES)
    ids = torch.tensor([[*source, *[PAD] * (longest - len(source))] for source in SOURCES])
    mask = torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s in SOURCES])
    encoded = encode(model, SOURCES)

    def find(end: int) -> list[list[Any]]:
        search = Beams(**beams, max_new_tokens=MOST)
        return beam_search_ids(model, [[PAD]] * 3, search, end_id=end, encoded=encoded)

    end_ids = ends(find(PAD))
    assert end_ids
    for end in end_ids:
        expected = theirs_found(reference_model, beams, end, input_ids=ids, attention_mask=mask)
        the_same(find(end), *expected, start=1, end=end)


@pytest.mark.parametrize("beams", SEARCHES, ids=str)
@pytest.mark.parametrize("case", ["gpt2", "llama"])
def test_beam_search_of_a_decoder_equals(case: str, beams: dict[str, Any], tmp_path: Path) -> None:
    reference_model, model, _ = both(case, tmp_path)
    prompts = [[5, 9, 11], [7, 20, 4], [3, 3, 3]]
    ids = torch.tensor(prompts)

    def find(end: int) -> list[list[Any]]:
        return beam_search_ids(model, prompts, Beams(**beams, max_new_tokens=MOST), end_id=end)

    end_ids = ends(find(PAD))
    assert end_ids
    for end in end_ids:
        mask = torch.ones_like(ids)
        expected = theirs_found(reference_model, beams, end, input_ids=ids, attention_mask=mask)
        the_same(find(end), *expected, start=3, end=end)


def bart() -> tuple[Any, Transformer]:
    """A tiny Bart of `transformers`, which is no family that is imported, and ours like it."""
    transformers = pytest.importorskip("transformers")
    quiet(transformers)
    torch.manual_seed(0)
    reference_model = transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=29, d_model=16, encoder_layers=2, decoder_layers=2,
            max_position_embeddings=32, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=24, decoder_ffn_dim=24, init_std=0.3, dropout=0.0,
            forced_eos_token_id=None,
            pad_token_id=PAD, bos_token_id=END, eos_token_id=END, decoder_start_token_id=PAD,
        )
    ).eval()  # fmt: skip
    norm = config.LayerNorm(eps=1e-5, bias=True)
    attention = config.MultiHead(
        n_heads=4, n_kv_heads=4, d_head=4, qkv_bias=True, out_bias=True, qk_norm=None, dropout=0.0
    )
    encoder = config.Stack(
        n_layers=2, positions=config.Learned(), attention=attention, norm=norm, input_norm=norm,
        feed_forward=config.MLP(d_ff=24, activation="gelu", bias=True),
        residual=config.PostNorm(), final_norm=False, dropout=0.0,
    )  # fmt: skip
    model = config.Transformer(
        vocab_size=29, context_length=32, d_model=16, encoder=encoder,
        decoder=replace(encoder, cross_attention=attention),
        embedding=config.Embedding(tied=True, scaled=False), initialisation=BASE.initialisation,
    )  # fmt: skip
    own_model = assemble(model, seed=0).eval()
    own_model.load_state_dict(
        {name: _of_bart(reference_model.model, name) for name in own_model.state_dict()}
    )
    return reference_model, own_model


_BART = (
    ("blocks", "layers"),
    ("cross_attention_norm", "encoder_attn_layer_norm"),
    ("attention_norm", "self_attn_layer_norm"),
    ("feed_forward_norm", "final_layer_norm"),
    ("input_norm", "layernorm_embedding"),
    ("cross_attention", "encoder_attn"),
    ("attention.", "self_attn."),
    ("query", "q_proj"),
    ("key", "k_proj"),
    ("value", "v_proj"),
    ("output", "out_proj"),
    ("feed_forward.up", "fc1"),
    ("feed_forward.down", "fc2"),
    ("positions.embedding", "embed_positions"),
    ("token_embedding", "shared"),
    ("norm.gain", "norm.weight"),
    ("embedding.gain", "embedding.weight"),
)


def _of_bart(theirs: Any, name: str) -> torch.Tensor:
    for ours_part, theirs_part in _BART:
        name = name.replace(ours_part, theirs_part)
    tensor = theirs.state_dict()[name]
    return tensor[2:] if "embed_positions" in name else tensor  # their first two rows are not used


def saved(case: str, folder: Path) -> tuple[Any, Transformer]:
    """Theirs, and ours with its weights."""
    return bart() if case == "bart" else both(case, folder)[:2]


def test_greedy_text_of_an_encoder_decoder_equals(tmp_path: Path) -> None:
    reference_model, model, _ = both("t5", tmp_path)
    for source in SOURCES:
        expected = reference_model.generate(
            torch.tensor([source]), max_new_tokens=12, do_sample=False, eos_token_id=None
        )
        steps = continue_tokens(
            model, [[PAD]], Sampling(temperature=0.0), encoded=encode(model, [source])
        )
        tokens = [next(steps)[0] for _ in range(12)]
        assert [token.token_id for token in tokens if token] == expected[0, 1:].tolist()


# -- an encoder

TEXTS = ["The capital of France is [MASK].", "a [MASK] sat", "A dog runs home, now [MASK] [MASK]."]


@pytest.fixture
def bert(tmp_path: Path) -> tuple[Any, Any, Path]:
    """Their model and tokenizer, and the directory that ours is opened from."""
    transformers = pytest.importorskip("transformers")
    reference_model, _, _ = both("bert", tmp_path)
    write_bert_tokenizer(tmp_path)
    words = transformers.BertTokenizerFast.from_pretrained(tmp_path)
    return reference_model, words, tmp_path


def test_a_text_is_framed_and_masked_as_theirs_is(bert: tuple[Any, Any, Path]) -> None:
    _, words, folder = bert
    framing = Framing(pellucid.load(folder).tokenizer, masks=True)  # type: ignore[attr-defined]
    for text in TEXTS:
        assert framing.ids_of(text) == words(text)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_masks_are_filled_equally(bert: tuple[Any, Any, Path], text: str) -> None:
    reference_model, words, folder = bert
    inputs = words(text, return_tensors="pt")
    with torch.no_grad():
        shares = torch.softmax(reference_model(**inputs).logits[0].double(), dim=-1)
    masks = pellucid.fill(pellucid.load(folder), text, top=4).masks
    places = (inputs["input_ids"][0] == words.mask_token_id).nonzero()[:, 0].tolist()
    assert [mask.position for mask in masks] == places
    for mask in masks:
        expected = shares[mask.position].topk(4)
        assert [token.token_id for token in mask.likeliest] == expected.indices.tolist()
        probabilities = [token.probability for token in mask.likeliest]
        np.testing.assert_allclose(probabilities, expected.values, rtol=1e-5)


def test_embeddings_are_equal(bert: tuple[Any, Any, Path]) -> None:
    reference_model, words, folder = bert
    texts = [text.replace("[MASK]", "paris") for text in TEXTS]
    inputs = words(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        states = reference_model.bert(**inputs).last_hidden_state
    real = inputs["attention_mask"][..., None]
    run = pellucid.load(folder)
    mean = ((states * real).sum(1) / real.sum(1)).numpy()
    np.testing.assert_allclose(pellucid.embed(run, texts, normalise=False), mean, atol=1e-5)
    first = torch.nn.functional.normalize(states[:, 0], dim=-1).numpy()
    np.testing.assert_allclose(pellucid.embed(run, texts, pool="first"), first, atol=1e-5)

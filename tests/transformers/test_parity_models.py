"""Our own model in `transformers`: the same numbers through its classes, and round trips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid import config, runs
from pellucid.errors import PellucidError
from pellucid.generation import Beams, Sampling
from support.exported import small_preset, untrained
from support.reference import quiet

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

IDS = torch.randint(2, 250, (2, 9), generator=torch.Generator().manual_seed(1))
MASK = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
CLASSES = config.ClassificationHead(classes=("ham", "spam"), pooling="mean", dropout=0.1, bias=True)


@pytest.fixture(scope="module")
def hf() -> Any:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    import pellucid.transformers

    assert pellucid.transformers.PellucidConfig.model_type == "pellucid"
    return transformers


def decoder(**changes: Any) -> config.Transformer:
    """A decoder that no family holds: its dense layers are clamped as gpt-oss's experts are."""
    model = small_preset("nano")
    feed_forward = config.ClampedGatedMLP(d_ff=48, bias=False, limit=7.0, slope=1.702)
    stack = replace(model.decoder, feed_forward=feed_forward, **changes)
    return replace(model, d_model=32, decoder=stack)


def exported(place: Path, model: config.Transformer, **options: Any) -> tuple[Any, Path]:
    run = untrained(place / "run", model, **options)
    runs.export_run(run, place / "out")
    return pellucid.load(run), place / "out"


def close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


def test_a_decoder_gives_the_same_logits_gradients_and_texts(hf: Any, tmp_path: Path) -> None:
    run, folder = exported(tmp_path, decoder())
    model = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    close(model(IDS).logits, run.model(IDS))
    model(IDS, labels=IDS).loss.backward()
    logits = run.model(IDS)[:, :-1].flatten(0, 1)
    torch.nn.functional.cross_entropy(logits, IDS[:, 1:].flatten()).backward()
    for name, parameter in run.model.named_parameters():
        close(model.get_parameter(f"model.{name}").grad, parameter.grad)
    prompt = tokenizer("the cat", return_tensors="pt")
    expected = runs.generate(run, "the cat", Sampling(temperature=0.0, max_new_tokens=12))[0].ids
    for cache in (True, False):
        generated_ids = model.generate(
            **prompt, do_sample=False, max_new_tokens=12, use_cache=cache
        )
        assert generated_ids[0, prompt.input_ids.shape[1] :].tolist() == list(expected)


@pytest.mark.parametrize("beams", [1, 3])
def test_rows_of_other_lengths_change_nothing(beams: int, hf: Any, tmp_path: Path) -> None:
    _, folder = exported(tmp_path, decoder())
    model = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    options = {"do_sample": False, "max_new_tokens": 8, "num_beams": beams, "pad_token_id": 0}
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), IDS[1:, 3:]), dim=1)
    batch = torch.cat((IDS[:1], padded))
    mask = torch.ones_like(batch)
    mask[1, :3] = 0
    batched_ids = model.generate(batch, attention_mask=mask, **options)
    single_ids = model.generate(IDS[1:, 3:], **options)
    assert batched_ids[1, 9:].tolist()[: single_ids.shape[1] - 6] == single_ids[0, 6:].tolist()


def test_padding_in_front_of_counted_positions_is_refused(hf: Any, tmp_path: Path) -> None:
    _, folder = exported(tmp_path, decoder(positions=config.Sinusoidal(base=100.0)))
    model = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    with pytest.raises(PellucidError, match="pad on the right"):
        model(IDS, attention_mask=MASK.flip(1))


def test_saving_and_opening_again_keeps_every_bit(hf: Any, tmp_path: Path) -> None:
    _, folder = exported(tmp_path, decoder())
    model = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    model.save_pretrained(tmp_path / "again")
    reopened = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "again").eval()
    assert torch.equal(reopened(IDS).logits, model(IDS).logits)
    fresh = hf.AutoModelForCausalLM.from_config(model.config)
    assert fresh(IDS).logits.isfinite().all()
    hf.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert torch.equal(pellucid.load(tmp_path / "again").model(IDS), model(IDS).logits)


def test_a_new_head_on_trained_weights_is_drawn(hf: Any, tmp_path: Path) -> None:
    _, folder = exported(tmp_path, decoder())
    settings = hf.AutoConfig.from_pretrained(folder)
    model_config = replace(settings.model, head=replace(CLASSES, pooling="last"))
    own_config = type(settings).from_model(model_config, pad_token_id=0)
    model = hf.AutoModelForSequenceClassification.from_pretrained(folder, config=own_config).eval()
    logits = model(IDS, attention_mask=MASK).logits
    assert logits.shape == (2, 2)
    assert logits.isfinite().all()
    assert logits.abs().max() > 0


def test_an_encoder_fills_masks_and_gives_states(hf: Any, tmp_path: Path) -> None:
    run, folder = exported(tmp_path, small_preset("nano-encoder"))
    model = hf.AutoModelForMaskedLM.from_pretrained(folder).eval()
    padding = MASK.bool()
    expected = run.model(IDS, padding=padding)
    close(model(IDS, attention_mask=MASK).logits[padding], expected[padding])
    states = hf.AutoModel.from_pretrained(folder).eval()(IDS, attention_mask=MASK).last_hidden_state
    close(states[padding], run.model.states(IDS, padding=padding)[padding])


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_classifier_names_the_same_classes(side: str, hf: Any, tmp_path: Path) -> None:
    model = small_preset("nano-encoder") if side == "encoder" else decoder()
    objective = config.Classification(label_smoothing=0.0)
    run, folder = exported(tmp_path, replace(model, head=CLASSES), objective=objective)
    hf_model = hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert hf_model.config.id2label == {0: "ham", 1: "spam"}
    assert hf_model.config.problem_type == "single_label_classification"
    close(
        hf_model(IDS, attention_mask=MASK).logits,
        run.model.class_logits(IDS, padding=MASK.bool()),
    )
    assert hf_model(IDS, labels=torch.tensor([0, 1])).loss.isfinite()


def test_an_encoder_decoder_writes_the_same(hf: Any, tmp_path: Path) -> None:
    objective = config.Seq2Seq(label_smoothing=0.0)
    run, folder = exported(tmp_path, small_preset("nano-pair"), objective=objective)
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    decoder_ids = IDS[:, :5]
    encoded = run.model.encode(IDS, padding=MASK.bool())
    expected = run.model(decoder_ids, encoded=encoded)
    close(model(IDS, attention_mask=MASK, decoder_input_ids=decoder_ids).logits, expected)
    assert model(IDS, labels=decoder_ids).loss.isfinite()
    batch = tokenizer("a cat", return_tensors="pt")
    for beams in (1, 4):
        options = Beams(n_beams=beams, max_new_tokens=9)
        best = runs.beam_search(run, "a cat", options)[0][0]
        generated_ids = model.generate(**batch, num_beams=beams, max_new_tokens=9)[0, 1:].tolist()
        assert generated_ids[: len(best.ids)] == list(best.ids)
        uncached = model.generate(**batch, num_beams=beams, max_new_tokens=9, use_cache=False)
        assert uncached[0, 1:].tolist() == generated_ids


def test_the_quick_start_opens_without_us(hf: Any, tmp_path: Path) -> None:
    run, folder = exported(tmp_path, small_preset("nano"))
    model = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    assert type(model).__name__ == "GPTNeoXForCausalLM"
    close(model(IDS).logits, run.model(IDS))


def test_a_vocabulary_cannot_be_resized_by_a_slip(hf: Any, tmp_path: Path) -> None:
    _, folder = exported(tmp_path, decoder())
    model = hf.AutoModelForCausalLM.from_pretrained(folder)
    with pytest.raises(PellucidError, match="keeps its vocabulary"):
        model.resize_token_embeddings(400)

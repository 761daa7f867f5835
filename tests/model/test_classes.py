"""Logits of classes: of one vector for a whole text, whatever else is in the batch."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import Classifier, LanguageModel
from pellucid.errors import ConfigError, PellucidError
from pellucid.model import Transformer, assemble
from support.kinds import CLASSES, KINDS
from support.models import BASE, VARIANTS

HEAD = config.ClassificationHead(classes=CLASSES, pooling="mean", dropout=0.0, bias=True)
IDS = torch.randint(0, 23, (1, 7), generator=torch.Generator().manual_seed(5))


def as_encoder(model: config.Transformer) -> config.Transformer:
    return replace(model, encoder=model.decoder, decoder=None)


def causal_only(model: config.Transformer) -> bool:
    assert model.decoder is not None
    return any(isinstance(layer, config.NeuralMemory) for layer in model.decoder.pattern)


#: Every kind of positions and attention, pooled in every way.
MODELS: dict[str, config.Transformer] = {
    **{
        f"{name}, decoder, {pooling}": replace(model, head=replace(HEAD, pooling=pooling))
        for name, model in VARIANTS.items()
        for pooling in ("mean", "last")
    },
    **{
        f"{name}, encoder, {pooling}": replace(
            as_encoder(model), head=replace(HEAD, pooling=pooling), pooler=pooling == "first"
        )
        for name, model in VARIANTS.items()
        if not causal_only(model)
        for pooling in ("first", "mean", "last")
    },
}


def built(model: config.Transformer) -> Transformer:
    return assemble(model, seed=1).double().eval()


def beside(text: Tensor, before: int, behind: int) -> tuple[Tensor, Tensor]:
    """The text with padding around it, over a text that fills its row."""
    length = before + text.shape[1] + behind
    ids = torch.full((2, length), 9)
    ids[0, before : length - behind] = text[0]
    padding = torch.ones(2, length, dtype=torch.bool)
    padding[0, :before] = False
    padding[0, length - behind :] = False
    return ids, padding


@pytest.mark.parametrize("name", MODELS)
def test_padding_on_any_side_and_neighbours_change_nothing(name: str) -> None:
    model = built(MODELS[name])
    with torch.no_grad():
        single_logits = model.class_logits(IDS)
        for before, after in ((0, 4), (4, 0), (2, 3)):
            ids, padding = beside(IDS, before, after)
            logits = model.class_logits(ids, padding=padding)
            assert logits.shape == (2, 3)
            torch.testing.assert_close(logits[:1], single_logits, rtol=1e-9, atol=1e-9)
            assert (logits[1] - logits[0]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["encoder with classes", "decoder with classes"])
def test_padding_has_no_gradient(kind: str) -> None:
    model = built(replace(KINDS[kind], vocab_size=23))
    ids, padding = beside(IDS.clamp(max=8), 2, 3)
    ids[1] = 8
    model.class_logits(ids, padding=padding).sum().backward()
    gradient = model.token_embedding.weight.grad
    assert gradient is not None
    assert not gradient[9].any()
    assert gradient[8].any()


def test_padding_that_is_behind_is_left_where_it_is() -> None:
    model = built(replace(as_encoder(BASE), head=HEAD))
    ids, padding = beside(IDS, 0, 4)
    states = model.states(ids, padding=padding)
    pooled = states[0, :7].mean(dim=0)
    expected = model.classifier(pooled)  # type: ignore[misc]
    torch.testing.assert_close(model.class_logits(ids, padding=padding)[0], expected)


def test_first_goes_through_the_pooler_where_there_is_one() -> None:
    model = built(replace(as_encoder(BASE), head=replace(HEAD, pooling="first"), pooler=True))
    assert model.pooler is not None
    assert model.classifier is not None
    first = model.states(IDS)[:, 0]
    expected = model.classifier(torch.tanh(model.pooler(first)))
    torch.testing.assert_close(model.class_logits(IDS), expected)
    bare = built(replace(as_encoder(BASE), head=replace(HEAD, pooling="first")))
    assert bare.classifier is not None
    torch.testing.assert_close(bare.class_logits(IDS), bare.classifier(bare.states(IDS)[:, 0]))


def test_last_is_the_state_of_the_last_real_token() -> None:
    model = built(replace(BASE, head=replace(HEAD, pooling="last")))
    assert model.classifier is not None
    ids, padding = beside(IDS, 0, 4)
    expected = model.classifier(model.states(IDS)[:, -1])
    torch.testing.assert_close(model.class_logits(ids, padding=padding)[:1], expected)


def test_the_model_itself_gives_logits_of_classes_and_is_a_classifier() -> None:
    model = built(replace(BASE, head=HEAD))
    assert isinstance(model, Classifier)
    ids, padding = beside(IDS, 3, 0)
    assert torch.equal(model(ids, padding=padding), model.class_logits(ids, padding=padding))


def test_dropout_is_of_the_pooled_vector_and_while_training_only() -> None:
    model = assemble(replace(BASE, head=replace(HEAD, dropout=0.5)), seed=1)
    torch.manual_seed(0)
    assert not torch.equal(model.class_logits(IDS), model.class_logits(IDS))
    model.eval()
    assert torch.equal(model.class_logits(IDS), model.class_logits(IDS))


def test_the_matrix_starts_as_any_other_and_the_biases_at_zero() -> None:
    wide = replace(
        BASE,
        d_model=256,
        head=replace(HEAD, classes=tuple(map(str, range(64)))),
        initialisation=replace(BASE.initialisation, weights=config.Normal(std=0.02)),
    )
    classifier = assemble(wide, seed=1).classifier
    assert classifier is not None
    assert float(classifier.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert not classifier.bias.any()


def test_the_body_starts_as_that_of_a_language_model_of_the_same_seed() -> None:
    classes, words = assemble(replace(BASE, head=HEAD), seed=3), assemble(BASE, seed=3)
    for name, weight in classes.state_dict().items():
        if not name.startswith("classifier."):
            assert torch.equal(weight, words.state_dict()[name]), name


def test_bias_is_there_where_it_is_asked_for() -> None:
    with_bias, without_bias = (
        assemble(replace(BASE, head=replace(HEAD, bias=bias)), seed=1).state_dict()
        for bias in (True, False)
    )
    assert with_bias.keys() - without_bias.keys() == {"classifier.bias"}


def test_what_needs_a_language_head_is_refused() -> None:
    model = built(replace(BASE, head=HEAD))
    with pytest.raises(PellucidError, match="is a classifier and has no token probabilities"):
        _ = model.head_weight
    with pytest.raises(PellucidError, match="no head for classes"):
        built(BASE).class_logits(IDS)


def test_what_a_classifier_cannot_be_told_is_refused_by_name() -> None:
    model = built(replace(BASE, head=HEAD))
    with pytest.raises(PellucidError, match="does not take caches"):
        model(IDS, model.new_caches())
    with pytest.raises(PellucidError, match="does not take documents"):
        model(IDS, documents=torch.zeros_like(IDS))


def test_classes_that_are_not_known_yet_build_no_model() -> None:
    with pytest.raises(ConfigError, match=r"model\.head\.classes is not set"):
        assemble(replace(BASE, head=replace(HEAD, classes=None)), seed=1)


@pytest.mark.parametrize("protocol", [Classifier, LanguageModel])
def test_protocols_find_a_model_without_the_lookup_of_its_parameters(protocol: type) -> None:
    # as `isinstance` looks from Python 3.12 on, which sees no parameter and no submodule
    model = built(replace(BASE, head=HEAD))
    names = [name for name in vars(protocol) if not name.startswith("_")]
    assert names
    for name in names:
        inspect.getattr_static(model, name)

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from pellucid import config
from pellucid.counting import parameter_count, parameters
from pellucid.errors import ConfigError
from pellucid.model import assemble
from pellucid.optim import group
from support.architectures import MEMORY, SMALL, SMALL_HEADS, SMALL_STACK, transformers, with_stack
from support.models import ENCODERS, PAIRS, VARIANTS

#: Only attention within a text projects the vectors of distances.
CROSSED = replace(
    PAIRS["t5"],
    decoder=replace(
        PAIRS["t5"].stacks[-1],
        positions=VARIANTS["disentangled with own projections"].stacks[0].positions,
    ),
)


def counted(model: config.Transformer) -> dict[str, int]:
    return {row.part: row.count for row in parameters(model)}


@settings(max_examples=40)
@given(model=transformers())
def test_counts_are_those_of_the_assembled_model(model: config.Transformer) -> None:
    with torch.device("meta"):
        built = assemble(model, seed=0)
    assert parameter_count(model) == sum(p.numel() for p in built.parameters())
    # the hidden matrices are those that the optimiser groups so
    hidden = group(built.named_parameters()).hidden.count
    assert sum(row.hidden for row in parameters(model)) == hidden
    each_row_counts_its_modules(model, built)


def each_row_counts_its_modules(model: config.Transformer, built: torch.nn.Module) -> None:
    def count_in(stack: str, *words: str) -> int:
        """Parameters of a stack whose name has one of `words` as a part."""
        parameters = [(name.split("."), p.numel()) for name, p in built.named_parameters()]
        return sum(n for name, n in parameters if name[0] == stack and set(words) & set(name))

    rows = counted(model)
    has_both = model.encoder is not None and model.decoder is not None
    for stack in ("encoder", "decoder"):
        prefix = f"{stack} " if has_both else ""
        if getattr(model, stack) is None:
            continue
        attention = sum(
            count
            for part, count in rows.items()
            if part.startswith(prefix) and part.endswith("attention") and part != "cross attention"
        )
        assert attention == count_in(stack, "attention")
        if stack == "decoder":
            assert rows.get("cross attention", 0) == count_in(stack, "cross_attention")
        assert rows[f"{prefix}feed-forward"] == count_in(stack, "feed_forward")
        assert rows[f"{prefix}norms of the blocks"] == count_in(
            stack, "attention_norm", "cross_attention_norm", "feed_forward_norm"
        )
        assert rows.get(f"{prefix}final norm", 0) == count_in(stack, "final_norm")
        assert rows.get(f"{prefix}input norm", 0) == count_in(stack, "input_norm")
        schemes = ("position embedding", "position bias", "relative positions")
        assert sum(rows.get(f"{prefix}{scheme}", 0) for scheme in schemes) == count_in(
            stack, "positions", "embedding_positions"
        )
        assert rows.get(f"{prefix}embedding projection", 0) == count_in(stack, "input_projection")
    for part, name in (
        ("token embedding", "token_embedding"),
        ("segment embedding", "segment_embedding"),
        ("pooler", "pooler"),
        ("head transform", "head_transform"),
        ("classifier transform", "classifier_transform"),
        ("head", "head"),
        ("head bias", "head_bias"),
    ):
        assert rows.get(part, 0) == count_in(name, name), part


def test_small_model_is_counted_as_on_paper() -> None:
    counts = {row.part: (row.times, row.count) for row in parameters(SMALL)}
    assert counts == {
        "token embedding": (1, 10 * 4),
        "position embedding": (1, 3 * 4),
        "attention": (2, 2 * (4 * 6 + 2 * 4 * 3 + 6 * 4)),
        "feed-forward": (2, 2 * 2 * 4 * 5),
        "norms of the blocks": (4, 4 * 4),
        "final norm": (1, 4),
    }


def test_attention_without_biases_has_the_formula_of_the_textbook() -> None:
    plain = with_stack(attention=replace(SMALL_HEADS, n_kv_heads=2, d_value=5))
    rows = {row.part: row for row in parameters(plain)}
    assert rows["attention"].formula == "n_layers (h d_model (2 d_k + d_v) + h d_v d_model)"
    assert rows["attention"].count == 2 * (2 * 4 * (2 * 3 + 5) + 2 * 5 * 4)
    grouped = {row.part: row.formula for row in parameters(SMALL)}["attention"]
    assert grouped == "n_layers (d_model (h d_k + h_kv (d_k + d_v)) + h d_v d_model)"


@pytest.mark.parametrize(
    ("changes", "part", "more"),
    [
        ({"attention": replace(SMALL_HEADS, sinks=True)}, "attention", 2 * 2),
        (
            {"attention": replace(SMALL_HEADS, qk_norm=config.RMSNorm(eps=1e-6))},
            "attention",
            2 * 2 * 3,
        ),
        (
            {
                "attention": replace(
                    SMALL_HEADS, qk_norm=config.RMSNorm(eps=1e-6), qk_norm_over="all_heads"
                )
            },
            "attention",
            2 * (6 + 3),
        ),
        ({"residual": config.SandwichNorm()}, "norms of the blocks", 2 * 2 * 4),
        ({"residual": config.Parallel()}, "norms of the blocks", 0),
        ({"norm": config.BatchNorm(eps=1e-5, momentum=0.1)}, "norms of the blocks", 4 * 4),
        # a length for each query, key and value, and for each row that is written back
        ({"reparametrisation": config.WeightNorm()}, "attention", 2 * (6 + 3 + 3 + 4)),
        ({"reparametrisation": config.WeightNorm()}, "feed-forward", 2 * (5 + 4)),
        ({"reparametrisation": config.SpectralNorm(power_iterations=1)}, "attention", 0),
    ],
)
def test_a_choice_adds_what_it_adds_on_paper(
    changes: dict[str, object], part: str, more: int
) -> None:
    assert counted(with_stack(**changes))[part] - counted(SMALL)[part] == more


@pytest.mark.parametrize(
    ("positions", "rows"),
    [
        (config.NoPositions(), {}),
        (config.Sinusoidal(base=1e4), {}),
        (config.ALiBi(), {}),
        (config.BucketedBias(n_buckets=8, max_distance=9), {"position bias": 8 * 2}),
        (config.ShawRelative(max_distance=2, values=False), {"relative positions": 5 * 3}),
        (config.ShawRelative(max_distance=2, values=True), {"relative positions": 5 * (3 + 3)}),
        (
            config.Disentangled(
                n_buckets=6,
                content_to_position=True,
                position_to_content=False,
                own_projections=False,
                norm=config.LayerNorm(eps=1e-5, bias=True),
            ),
            {"relative positions": 6 * 4 + 2 * 4},
        ),
    ],
)
def test_positions_have_the_parameters_they_have_on_paper(
    positions: config.Positions, rows: dict[str, int]
) -> None:
    counts = counted(with_stack(positions=positions))
    assert {part: count for part, count in counts.items() if "position" in part} == rows


def test_layers_that_take_turns_are_counted_apart() -> None:
    local, wide = replace(SMALL_HEADS, window=2), replace(SMALL_HEADS, window=3)
    turns = config.Alternating(layers=(local, SMALL_HEADS, wide))
    model = with_stack(attention=turns, n_layers=5)
    rows = {row.part: row for row in parameters(model)}
    n_each = counted(SMALL)["attention"] // 2
    assert (rows["window 1 attention"].times, rows["window 1 attention"].count) == (2, 2 * n_each)
    assert (rows["global attention"].times, rows["global attention"].count) == (2, 2 * n_each)
    assert (rows["window 2 attention"].times, rows["window 2 attention"].count) == (1, n_each)
    assert rows["global attention"].formula.startswith("2 (d_model")


def test_a_memory_is_counted_as_on_paper() -> None:
    # seven matrices of 6 x 4 (output among them), four gates of 2 x 4, a start of 3 x 3 per head
    n_each = 7 * 6 * 4 + 4 * 2 * 4 + 2 * 3 * 3 + 4 * 2 + 3
    assert counted(with_stack(attention=MEMORY))["attention"] == 2 * n_each
    row = next(row for row in parameters(with_stack(attention=MEMORY)) if row.part == "attention")
    assert row.count - row.hidden == 2 * (4 * 2 + 3)


def test_stacks_of_a_pair_are_counted_apart_and_their_embedding_once() -> None:
    pair = replace(
        SMALL,
        encoder=replace(SMALL_STACK, n_layers=1),
        decoder=replace(SMALL_STACK, cross_attention=SMALL_HEADS),
    )
    counts, decoder_alone = counted(pair), counted(SMALL)
    assert counts["token embedding"] == decoder_alone["token embedding"]
    assert counts["decoder attention"] == counts["cross attention"] == decoder_alone["attention"]
    assert 2 * counts["encoder attention"] == decoder_alone["attention"]
    assert counts["decoder norms of the blocks"] == 3 * 2 * 4
    assert counts["encoder norms of the blocks"] == 2 * 4


def test_parts_around_the_stack_are_counted_as_on_paper() -> None:
    norm = config.LayerNorm(eps=1e-5, bias=True)
    model = replace(
        SMALL,
        embedding=config.Embedding(tied=False, scaled=False, segments=2),
        head=config.LanguageHead(
            bias=True, transform=config.HeadTransform(activation="gelu", norm=norm)
        ),
        pooler=True,
    )
    counts = counted(model)
    assert counts["segment embedding"] == 2 * 4
    assert counts["pooler"] == 4 * 4 + 4
    assert counts["head transform"] == 4 * 4 + 4 + 2 * 4
    assert (counts["head"], counts["head bias"]) == (10 * 4, 10)
    assert "head" not in counted(replace(model, head=config.NoHead()))


def test_model_whose_vocabulary_is_not_known_is_not_counted() -> None:
    with pytest.raises(ConfigError, match=r"model\.vocab_size is not set"):
        parameter_count(replace(SMALL, vocab_size=None))


def test_a_head_for_classes_is_counted_as_on_paper() -> None:
    classes = config.ClassificationHead(
        classes=("a", "b", "c"), pooling="last", dropout=0.0, bias=True
    )
    assert counted(replace(SMALL, head=classes))["classifier"] == 3 * 4 + 3
    assert counted(replace(SMALL, head=replace(classes, bias=False)))["classifier"] == 3 * 4
    row = next(row for row in parameters(replace(SMALL, head=classes)) if row.part == "classifier")
    assert (row.hidden, row.formula) == (0, "n_classes d_model + n_classes")
    with pytest.raises(ConfigError, match=r"model\.head\.classes is not set"):
        parameter_count(replace(SMALL, head=replace(classes, classes=None)))


@pytest.mark.parametrize(
    "model", [*VARIANTS.values(), *ENCODERS.values(), *PAIRS.values(), CROSSED]
)
def test_counts_of_every_variant_are_those_of_the_assembled_model(
    model: config.Transformer,
) -> None:
    with torch.device("meta"):
        built = assemble(model, seed=0)
    assert parameter_count(model) == sum(p.numel() for p in built.parameters())

"""The common part of decoders with mixtures of experts: attributes, layers, and tensors.

Published files have a tensor for each matrix of each expert, or, from newer programs and in some
families, one for all experts of a layer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    BLOCK,
    FEED,
    GATED,
    LAYER,
    NAMES,
    ROWS,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
)
from pellucid.checkpoints.huggingface.names import Groups, Names, Source, linear, stacked

#: Paths of the mixtures, and of dense layers between them.
MIXTURE, DENSE = f"{FEED}:Experts", f"{FEED}:GatedMLP"
_EXPERT = f"{BLOCK}.feed_forward.experts.{{e}}"
FEED_ATTRIBUTES = ("intermediate_size", "hidden_act")
#: The rows of decoders, without the feed-forward.
DECODER_ROWS = tuple(row for row in ROWS if not any(name in row.rules for name in FEED_ATTRIBUTES))


def mixture(*, expert: Table = GATED, router: Table | None = None, **keys: object) -> Table:
    """The config of a mixture of experts; by default with a softmax router."""
    default = {"kind": "Router", "scores": "softmax"}
    kind = {"kind": "Experts", "expert": expert, "router": {**default, **(router or {})}, **keys}
    # no part is the same table as another one: rows change them one by one
    return {key: copy.deepcopy(value) for key, value in kind.items()}


def _read_balance(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if attributes["output_router_logits"]:
        set_values(tree, f"{MIXTURE}.load_loss", attributes["router_aux_loss_coef"] or 0.0)


def _write_balance(tree: Table) -> Table:
    weights = [weight for weight in values_at(tree, f"{MIXTURE}.load_loss") if weight]
    return {
        "output_router_logits": bool(weights),
        **({"router_aux_loss_coef": weights[0]} if weights else {}),
    }


def balance_row(default: float = 0.001) -> Row:
    """The load-balancing loss, which `transformers` adds only with `output_router_logits`."""
    rules: Rules = {
        "output_router_logits": Read(bool, False),
        "router_aux_loss_coef": Read(float, default, or_none=True),
    }
    return Row(rules=rules, read=_read_balance, write=_write_balance)


ACTIVATION = activation(
    "hidden_act",
    f"{MIXTURE}.expert.activation",
    f"{MIXTURE}.shared?.activation",
    f"{DENSE}.activation",
    default="silu",
)
ACTIVE = f"{MIXTURE}.n_active"
NORMALISED = f"{MIXTURE}.router.normalised"


def sparse_layers_row(
    sparse: Table,
    is_sparse: Callable[[Table, int], bool],
    rules: Rules,
    describe: Callable[[list[bool]], Table],
) -> Row:
    """Which layers have a mixture of experts; the others have a dense layer.

    Args:
        sparse: the mixture.
        is_sparse: whether the layer of a number has it.
        rules: the attributes that say so.
        describe: their values, from the answer for each layer.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        for number_, layer in enumerate(tree["decoder"]["layers"]):
            kind = sparse if is_sparse(attributes, number_) else GATED
            layer["feed_forward"] = copy.deepcopy(kind)

    def write(tree: Table) -> Table:
        kinds: list[str] = values_at(tree, f"{FEED}.kind")
        if other := next((kind for kind in kinds if kind not in ("Experts", "GatedMLP")), None):
            raise Unfit(f"feed_forward is {other}, but this family has Experts or GatedMLP")
        if "Experts" not in kinds:
            raise Unfit("no layer has a mixture of experts, but this family has some")
        return describe([kind == "Experts" for kind in kinds])

    return Row(rules=rules, read=read, write=write)


def expert_names(published: str, gate: str, up: str, down: str) -> Iterator[tuple[str, Source]]:
    """A tensor for each matrix of each expert, at a path such as model.layers.{n}.mlp.experts."""
    for part, leaf in (("gate", gate), ("up", up), ("down", down)):
        yield from linear(f"{_EXPERT}.{part}", f"{published}.{{e}}.{leaf}")


def joint_names(
    gate_up: str,
    down: str,
    *,
    bias: str = "",
    groups: Groups = "one",
    transposed: bool = False,
) -> Iterator[tuple[str, Source]]:
    """One tensor for gate and up of all experts of a layer, and one for down.

    Args:
        gate_up: the name of the first.
        down: the name of the second.
        bias: what follows the names of the biases; empty if there are none.
        groups: in how many groups the rows of gate and up come.
        transposed: whether matrices are stored as (in, out).
    """
    suffixes = {"weight": "", **({"bias": bias} if bias else {})}
    rows: list[tuple[str, Source]] = []
    for part, suffix in suffixes.items():
        members = tuple(f"{_EXPERT}.{name}.{part}" for name in ("gate", "up"))
        for index, parameter in enumerate(members):
            source = Source(f"{gate_up}{suffix}", transposed, members, index, groups)
            rows.append((parameter, source))
        rows.append((f"{_EXPERT}.down.{part}", Source(f"{down}{suffix}", transposed)))
    return stacked(rows)


MLP = f"{LAYER}.mlp"
JOINT_NAMES: Names = dict(joint_names(f"{MLP}.experts.gate_up_proj", f"{MLP}.experts.down_proj"))
#: The names that most families share.
EXPERT_NAMES: Names = {
    **NAMES,
    **dict(expert_names(f"{MLP}.experts", "gate_proj", "up_proj", "down_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.router", f"{MLP}.gate")),
}


def shared_names(published: str) -> Names:
    """The tensors of the layer that every token uses, at a path such as mlp.shared_expert."""
    names: dict[str, Source] = {}
    for part in ("gate", "up", "down"):
        path = f"{BLOCK}.feed_forward.shared.{part}"
        names |= dict(linear(path, f"{MLP}.{published}.{part}_proj"))
    return names

"""A mixture of experts: router, scores, choice, weights, and what each expert adds."""

from __future__ import annotations

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site, block_at
from pellucid.explain.equations.equation import (
    Env,
    Equation,
    Source,
    block_path,
    label,
    layer_name,
    sigmoid,
    softmax,
    steps,
)
from pellucid.explain.equations.linear import linear
from pellucid.explain.experts import expert_number, experts_facts
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Masked,
    Places,
    Read,
    Series,
    Total,
    setting,
)
from pellucid.explain.trace_types import Trace
from pellucid.model import Experts
from pellucid.model.experts.routing import RouterRule
from pellucid.model.facts import (
    ExpertsFacts,
)

_SUM: Source = (Experts, "outputs[places].view(n_tokens, n_active, -1).sum(1)")


def mixture(trace: Trace, site: Site, facts: ExpertsFacts) -> Equation:
    """What the experts of a token write, and the shared layer."""
    address = f"{layer_name(site)}.feed_forward"
    terms: list[Formula] = [
        Masked(
            Read(f"{address}.weights", ("t", expert), "w"),
            Read(f"{address}.experts.{expert}.written", ("t", "f"), f"written[{expert}]"),
        )
        for expert in range(facts.n_experts)
    ]
    text = "Σ written[chosen]"
    if facts.shared is not None:
        shared: Formula = Read(f"{address}.shared", ("t", "f"), "shared")
        text += " + shared"
        if facts.shared_gate is not None:
            shared = shared * sigmoid(Read(f"{address}.shared_gate", ("t", 0), "g"))
            text += " × 1 / (1 + exp(-g))"
        terms.append(shared)
    return Equation(
        formula=Series(tuple(terms)),
        axes=("t", "f"),
        title=lambda env: message("equations.feature-of-the-layer-output", f=env["f"]),
        text=text,
        source=_SUM,
    )


def written_by_expert(trace: Trace, site: Site) -> Equation:
    """What an expert adds to the layer's output: its weight times its output."""
    part, expert = site.part.removesuffix(".written"), expert_number(site.part)
    facts = experts_facts(block_at(trace, site))
    assert expert is not None
    assert facts is not None
    output: Formula = Read(f"{layer_name(site)}.{part}", ("t", "f"), "y")
    text = "y"
    if facts.weights_on == "output":
        output = Read(f"{layer_name(site)}.feed_forward.weights", ("t", expert), "w") * output
        text = "w × y"
    return Equation(
        formula=output,
        axes=("t", "f"),
        title=lambda env: message(
            "equations.feature-of-what-expert-writes", f=env["f"], expert=expert
        ),
        text=text,
        source=_SUM,
    )


def router(trace: Trace, site: Site) -> Equation:
    """The logit of each expert, or of the shared layer's share."""
    name = site.part.rpartition(".")[2]
    key = "equations.router" if name == "router" else "equations.shared-gate"
    return linear(
        trace,
        site,
        layer=f"{block_path(site)}.feed_forward.{name}",
        reads=f"{layer_name(site)}.feed_forward.in",
        title=lambda env: message(key, f=env["f"]),
        line=f"self.{name}(tokens",
    )


def router_score(trace: Trace, site: Site) -> Equation:
    """The share of an expert in the softmax of all, or the sigmoid of its logit."""
    facts, address = _facts(trace, site), f"{layer_name(site)}.feed_forward.router"
    score = Read(address, ("t", "e"), "x")
    if facts.rule.scores == "softmax":
        formula = softmax(score, lambda axis: Read(address, ("t", axis), "x"), facts.n_experts)
        text = "exp(x - max) / Σ exp(x - max)"
    else:
        formula, text = sigmoid(score), "1 / (1 + exp(-x))"
    return Equation(
        formula=formula,
        axes=("t", "e"),
        title=lambda env: message(
            "equations.score-of-expert-for", e=env["e"], token=_token(trace, site, env["t"])
        ),
        text=text,
        source=(RouterRule.forward, "logits.softmax(-1)"),
    )


def choice(trace: Trace, site: Site) -> Equation:
    """The expert of each place: as many experts score above it as its place says.

    The formula is its number, plus how many score above it, minus the place.
    """
    facts, address = _facts(trace, site), f"{layer_name(site)}.feed_forward"
    expert_ids = trace[f"{address}.chosen"].cpu()
    allowed = _in_best_groups(trace, site)
    number = Constant(expert_ids.double(), ("t", "a"), "expert")
    score: Formula = Read(f"{address}.scores", ("t", Places(expert_ids, ("t", "a"))), "s")
    rival: Formula = Read(f"{address}.scores", ("t", "e"), "score")
    if facts.choice_bias is not None:
        path = f"{block_path(site)}.feed_forward.{facts.choice_bias}"
        score = score + Read(path, (Places(expert_ids, ("t", "a")),), "b")
        rival = rival + Read(path, ("e",), "bias")
    n_better = Total("e", facts.n_experts, (rival - score).apply("step"), allowed)
    return Equation(
        formula=number + n_better - steps("a", expert_ids.shape[1], "place"),
        axes=("t", "a"),
        title=lambda env: message(
            "equations.expert-of-the-best-first", a=env["a"], token=_token(trace, site, env["t"])
        ),
        text="expert + Σ [score > s] - place",
        source=(RouterRule.forward, "ranked.topk("),
    )


def _in_best_groups(trace: Trace, site: Site) -> Constant | None:
    """(tokens, experts): 1 where an expert is in one of its token's best groups; None for all."""
    block = block_at(trace, site)
    rule, layer = block.get_submodule("feed_forward.rule"), block.get_submodule("feed_forward")
    assert isinstance(rule, RouterRule)
    assert isinstance(layer, Experts)
    if rule.groups is None:
        return None
    scores = trace[f"{layer_name(site)}.feed_forward.scores"]
    ranked = scores if layer.choice_bias is None else scores + layer.choice_bias
    grouped = ranked.view(len(ranked), rule.groups.n_groups, -1)
    n_counted = 1 if rule.groups.score == "largest" else 2
    best = grouped.topk(n_counted, dim=-1).values.sum(-1).topk(rule.groups.n_active).indices
    is_best = torch.zeros(grouped.shape[:2]).scatter(1, best.cpu(), 1.0)
    return Constant(is_best.repeat_interleave(grouped.shape[2], 1), ("t", "e"), "group")


def expert_weight(trace: Trace, site: Site) -> Equation:
    """The weight of an expert: its score, over the sum of the chosen ones, times the scale."""
    facts, address = _facts(trace, site), f"{layer_name(site)}.feed_forward"
    expert_ids = trace[f"{address}.chosen"].cpu()
    is_chosen = torch.zeros(len(expert_ids), facts.n_experts).scatter(1, expert_ids, 1.0)
    formula: Formula = Read(f"{address}.scores", ("t", "e"), "s")
    text = "s"
    if facts.rule.normalised:
        places = Places(expert_ids, ("t", "a"), f"{address}.chosen")
        used = Read(f"{address}.scores", ("t", places), "s")
        formula, text = (
            formula / Total("a", expert_ids.shape[1], used),
            "s / Σ s[chosen]",
        )
    if facts.rule.scale != 1.0:
        formula, text = formula * setting(facts.rule.scale, "scale"), f"{text} × scale"

    def is_used(env: Env) -> bool:
        return bool(is_chosen[env["t"], env["e"]])

    def title(env: Env) -> str:
        key = "weight-of-expert-for" if is_used(env) else "weight-of-an-unused-expert"
        return message(f"equations.{key}", e=env["e"], token=_token(trace, site, env["t"]))

    return Equation(
        formula=Masked(Constant(is_chosen, ("t", "e"), "chosen"), formula),
        axes=("t", "e"),
        title=title,
        text=lambda env: text if is_used(env) else "0",
        source=(RouterRule.forward, "weights = scores.gather(1, experts)"),
    )


def _facts(trace: Trace, site: Site) -> ExpertsFacts:
    facts = experts_facts(block_at(trace, site))
    assert facts is not None  # an address of experts exists only where there are some
    return facts


def _token(trace: Trace, site: Site, token: int) -> str:
    return label(trace.pieces(site.side), token)

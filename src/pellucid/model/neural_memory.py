"""Attention over a window, combined with a memory that learns while it reads."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.model.attention import join_heads, split_heads
from pellucid.model.cache import NoCache
from pellucid.model.facts import GateFacts, NeuralMemoryFacts
from pellucid.model.neural_memory_update import Gates, MemoryState, through_text
from pellucid.model.norms import RMSNorm
from pellucid.model.positions import Positions
from pellucid.model.precision import as_given, for_products, wide
from pellucid.model.scores import Scoring, gather
from pellucid.model.views import View

#: The gates at the start of training, for x = 0. One step with the first two writes most of a
#: value, and hardly anything is forgotten, so tokens far back get gradients from the start.
FIRST_RATE, FIRST_PERSISTENCE, FIRST_FORGETTING = 0.3, 0.1, 0.002


class HeadGate(nn.Module):
    """A number per head that depends on the token: sigmoid(W x + b), which is `share` at x = 0."""

    def __init__(self, *, d_model: int, n_heads: int, share: float) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, n_heads, bias=False)
        self.bias = nn.Parameter(torch.full((n_heads,), math.log(share / (1 - share))))

    def forward(self, x: Float[Tensor, "batch time d_model"]) -> Float[Tensor, "batch heads time"]:
        """The logits, before the sigmoid."""
        return (wide(self.linear(x)) + wide(self.bias)).transpose(1, 2)

    def facts(self) -> GateFacts:
        """The number of heads."""
        return GateFacts(n_heads=self.linear.out_features)


class NeuralMemory(nn.Module):
    """Attention over a window, and a memory trained on every token it reads, mixed by a gate.

    The memory of a head is a matrix M from keys to values. Its loss for a token is |M k - v|^2, and
    every token makes a step of gradient descent on it, with momentum S:

        S_t = eta_t S_(t-1) - theta_t dl/dM,  M_t = (1 - alpha_t) M_(t-1) + S_t

    The gradient is taken at the memory before the token's chunk. A token then reads M_t q_t:

        output((1 - g) window + g norm(M_t q_t))

    g, theta, eta and alpha are sigmoids of the token, per head. Training learns M_0 and
    differentiates through all steps. During generation the cache holds memory and momentum. With
    `frozen` every token reads M_0. Keys and queries of the memory have length 1. The numbers are in
    float32 at least.

    Differences from the paper: the memory is one matrix instead of a deeper network, its
    projections have no convolution and no SiLU, the window's output is not normalised, and there
    are no persistent tokens before the window.

    Parameters: 7 d_model n_heads d_head + 4 (d_model + 1) n_heads + n_heads d_head^2 + d_head.

    Source:
        Behrouz, Zhong and Mirrokni 2025, "Titans: Learning to Memorize at Test Time", eq. 9-14,
        section 3.2 (chunks) and section 4.2 (memory as a gate).
    See also:
        `pellucid.maths.memory_in_chunks`, against which it is tested.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        d_head: int,
        window: int,
        chunk: int,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_head
        self.window, self.chunk, self.frozen = window, chunk, frozen
        width = n_heads * d_head
        self.query = nn.Linear(d_model, width, bias=False)
        self.key = nn.Linear(d_model, width, bias=False)
        self.value = nn.Linear(d_model, width, bias=False)
        self.memory_query = nn.Linear(d_model, width, bias=False)
        self.memory_key = nn.Linear(d_model, width, bias=False)
        self.memory_value = nn.Linear(d_model, width, bias=False)
        #: M_0 of all heads, stacked vertically
        self.memory = nn.Linear(d_head, width, bias=False)
        self.memory_norm = RMSNorm(d_head, eps=1e-6)

        def gate(share: float) -> HeadGate:
            return HeadGate(d_model=d_model, n_heads=n_heads, share=share)

        self.learning_rate = gate(FIRST_RATE)
        self.persistence = gate(FIRST_PERSISTENCE)
        self.forgetting = gate(FIRST_FORGETTING)
        self.mixing = gate(0.5)
        self.output = nn.Linear(width, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        positions: Positions,
        view: View,
        cache: NoCache,
    ) -> Float[Tensor, "batch time d_model"]:
        """Each token's output of window and memory.

        Args:
            x: (batch, time, d_model). positions: of the stack, for the window. view: what each
            token sees. cache: keys, values and memory of earlier tokens.

        Raises:
            PellucidError: tokens may look ahead, as in an encoder or within a prefix.
        """
        x = for_products(x)
        attended = self._attend(x, positions, view, cache)
        memory_output = self.memory_norm(self._read_memory(x, view, cache))
        share = torch.sigmoid(self.mixing(x))[..., None]
        mixed = torch.lerp(wide(attended), memory_output, share)
        return self.output(join_heads(mixed.to(x.dtype)))

    def _attend(self, x: Tensor, positions: Positions, view: View, cache: NoCache) -> Tensor:
        """The output of attention over the window."""
        q, k, v = (
            split_heads(part(x), self.n_heads) for part in (self.query, self.key, self.value)
        )
        q, k = positions.rotate(q, view), positions.rotate(k, view)
        return gather(q, cache.extend(k, v), self.scoring(), positions, view, self.window)

    def scoring(self) -> Scoring:
        """How the window's scores are computed."""
        return Scoring(1 / math.sqrt(self.d_head))

    def _read_memory(self, x: Tensor, view: View, cache: NoCache) -> Tensor:
        """The memory's output for each token, after the token's own step."""
        q = self._unit(self.memory_query, x)
        first = wide(self.memory.weight).view(self.n_heads, self.d_head, self.d_head)
        if self.frozen:
            with as_given(x.device):
                return q @ first.mT
        k, v = self._unit(self.memory_key, x), self._heads(self.memory_value, x)
        gates = Gates(
            torch.sigmoid(self.learning_rate(x)),
            F.logsigmoid(self.persistence(x)),
            F.logsigmoid(-self.forgetting(x)),
        )
        fresh = first.expand(x.shape[0], -1, -1, -1)
        cached = cache.state()
        start = MemoryState.new(fresh) if cached is None else MemoryState(*cached)
        with as_given(x.device):
            outputs, state = through_text(
                start, q, k, v, gates, view=view, chunk=self.chunk, fresh=fresh
            )
        cache.keep(tuple(state))
        return outputs

    def _heads(self, part: nn.Module, x: Tensor) -> Tensor:
        return wide(split_heads(part(x), self.n_heads))

    def _unit(self, part: nn.Module, x: Tensor) -> Tensor:
        return F.normalize(self._heads(part, x), dim=-1)

    def facts(self) -> NeuralMemoryFacts:
        """Its window, and how its memory is written."""
        return NeuralMemoryFacts(
            n_heads=self.n_heads,
            d_head=self.d_head,
            scale=1 / math.sqrt(self.d_head),
            window=self.window,
            chunk=self.chunk,
            frozen=self.frozen,
        )

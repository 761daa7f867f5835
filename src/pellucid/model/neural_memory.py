"""A window of attention beside a memory that learns while it reads."""

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

#: Where the gates start, before a token has a say. One step with the first two writes most of a
#: value, and hardly anything is forgotten, so that training hears from far back at once.
FIRST_RATE, FIRST_PERSISTENCE, FIRST_FORGETTING = 0.3, 0.1, 0.002


class HeadGate(nn.Module):
    """A share of each head that depends on the token: sigmoid(W x + b), `share` at x = 0."""

    def __init__(self, *, d_model: int, n_heads: int, share: float) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, n_heads, bias=False)
        self.bias = nn.Parameter(torch.full((n_heads,), math.log(share / (1 - share))))

    def forward(self, x: Float[Tensor, "batch time d_model"]) -> Float[Tensor, "batch heads time"]:
        """The logits: what the sigmoid is taken of."""
        return (wide(self.linear(x)) + wide(self.bias)).transpose(1, 2)

    def facts(self) -> GateFacts:
        """How many shares there are."""
        return GateFacts(n_heads=self.linear.out_features)


class NeuralMemory(nn.Module):
    """Attention over a window, and a memory trained on every token it reads, mixed by a gate.

    The memory of a head is a matrix M from keys to values, its loss |M k - v|^2 for the keys and
    values of a token, and every token is a step of gradient descent on it, with momentum S:
    S_t = eta_t S_(t-1) - theta_t dl/dM,  M_t = (1 - alpha_t) M_(t-1) + S_t
    The gradient is taken at the memory before the token's chunk. A token then reads M_t q_t:
    output((1 - g) window + g norm(M_t q_t)),  g, theta, eta, alpha sigmoids of the token, per head

    M_0 is trained with the model, which differentiates through all of this. At inference memory and
    momentum go on in the cache. With `frozen` every token reads M_0. Keys and queries of the memory
    have length 1. Computed in float32 at least.

    Unlike the paper's: the memory is one matrix and not a deeper network, its projections have no
    convolution and no SiLU, the window's output is not normalised, and there are no persistent
    tokens before the window.

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
        #: M_0 of all heads, one below the other
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
        """What each token finds in its window and in the memory.

        Raises:
            PellucidError: tokens may look ahead, as in an encoder or within a prefix.
        """
        x = for_products(x)
        near = self._near(x, positions, view, cache)
        far = self.memory_norm(self._far(x, view, cache))
        share = torch.sigmoid(self.mixing(x))[..., None]
        mixed = torch.lerp(wide(near), far, share)
        return self.output(join_heads(mixed.to(x.dtype)))

    def _near(self, x: Tensor, positions: Positions, view: View, cache: NoCache) -> Tensor:
        """What attention gathers from the window."""
        q, k, v = (
            split_heads(part(x), self.n_heads) for part in (self.query, self.key, self.value)
        )
        q, k = positions.rotate(q, view), positions.rotate(k, view)
        return gather(q, cache.extend(k, v), self.scoring(), positions, view, self.window)

    def scoring(self) -> Scoring:
        """How the window's scores are made."""
        return Scoring(1 / math.sqrt(self.d_head))

    def _far(self, x: Tensor, view: View, cache: NoCache) -> Tensor:
        """What each token reads in the memory, its own step included."""
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
            far, state = through_text(
                start, q, k, v, gates, view=view, chunk=self.chunk, fresh=fresh
            )
        cache.keep(tuple(state))
        return far

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

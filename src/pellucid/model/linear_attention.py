"""Linear attention: products of features instead of the softmax, so that the past is a sum."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.maths.attention.linear_attention import elu_features
from pellucid.maths.scans import linear_scan
from pellucid.model.attention import join_heads, split_heads
from pellucid.model.cache import NoCache
from pellucid.model.facts import LinearAttentionFacts
from pellucid.model.positions import Positions
from pellucid.model.precision import as_given, for_products, wide
from pellucid.model.views import View

#: Keeps the normaliser above zero; features are positive, so it only matters without a key.
EPS = 1e-6


class LinearAttention(nn.Module):
    """Attention whose scores are products of features: phi(q) . phi(k), with phi = elu + 1.

    o_n = sum_m (R_n phi(q_n) . R_m phi(k_m)) v_m / (sum_m phi(q_n) . phi(k_m) + eps)

    R rotates features by their position if the scheme is rotary, in the numerator only, so that
    nothing is divided by zero. For other schemes it is the identity; a bias of scores has no effect
    here. In a decoder the sums run over m <= n and continue from chunk to chunk and from call to
    call: the time is linear in the text, and each step of generation takes the same time. Sums are
    in float32 at least. Documents stay separate if each is in one piece.

    Parameters: 4 d_model n_heads d_head, and with biases 3 n_heads d_head and d_model more.

    Source:
        Katharopoulos et al. 2020, "Transformers are RNNs", eq. 7-12 and section 3.4;
        Su et al. 2021, "RoFormer", eq. 19 (rotary positions in linear attention).
    See also:
        `pellucid.maths.attention.linear_attention`, against which it is tested.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        d_head: int,
        qkv_bias: bool,
        out_bias: bool,
        chunk: int,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.chunk = chunk
        self.query = nn.Linear(d_model, n_heads * d_head, bias=qkv_bias)
        self.key = nn.Linear(d_model, n_heads * d_head, bias=qkv_bias)
        self.value = nn.Linear(d_model, n_heads * d_head, bias=qkv_bias)
        self.output = nn.Linear(n_heads * d_head, d_model, bias=out_bias)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        positions: Positions,
        view: View,
        cache: NoCache,
    ) -> Float[Tensor, "batch time d_model"]:
        """Each token's mean of the values that it sees.

        Args:
            x: (batch, time, d_model). positions: of the stack. view: what each token sees.
            cache: the sums over earlier tokens.

        Raises:
            PellucidError: documents and a prefix at once.
        """
        x = for_products(x)
        q, k, v = (
            wide(split_heads(part(x), self.n_heads)) for part in (self.query, self.key, self.value)
        )
        with as_given(x.device):
            q, k = elu_features(q), _without_padding(elu_features(k), view)
            rotated_q, rotated_k = positions.rotate(q, view), positions.rotate(k, view)
            unit_values = torch.ones_like(v[..., :1])
            values, keys = cache.state() or (None, None)
            attended, values = self._sums(rotated_q, rotated_k, v, values, view)
            normaliser, keys = self._sums(q, k, unit_values, keys, view)
            cache.keep((values, keys))
            mixed = attended / (normaliser + EPS)
        return self.output(join_heads(mixed.to(x.dtype)))

    def _sums(
        self, q: Tensor, k: Tensor, v: Tensor, state: Tensor | None, view: View
    ) -> tuple[Tensor, Tensor]:
        """sum_m (q_n . k_m) v_m over the tokens that n sees, and sum_m k_m v_m^T over all."""
        documents = view.documents
        if view.causal or view.forwards:
            if view.prefix is None:
                return sums_so_far(q, k, v, state=state, chunk=self.chunk, documents=documents)
            if documents is not None:
                raise PellucidError(
                    "linear attention cannot separate documents and have a prefix at once: pass "
                    "one document per row, or leave the prefix out"
                )
            # every token sees the prefix, so it is in the first state and not added again
            index = torch.arange(k.shape[2], device=k.device)
            in_prefix = (index < view.prefix[:, None])[:, None, :, None]
            prefix_keys, other_keys = k * in_prefix, k * ~in_prefix
            return sums_so_far(q, other_keys, v, state=prefix_keys.mT @ v, chunk=self.chunk)
        if documents is None:
            state = k.mT @ v
            return q @ state, state
        forward_sums, state = sums_so_far(q, k, v, chunk=self.chunk, documents=documents)
        flipped = (part.flip(2) for part in (q, k, v))
        backward_sums, _ = sums_so_far(*flipped, chunk=self.chunk, documents=documents.flip(1))
        self_sums = (q * k).sum(-1, keepdim=True) * v  # it is in both sums
        return forward_sums + backward_sums.flip(2) - self_sums, state

    def facts(self) -> LinearAttentionFacts:
        """Its heads, chunk and eps."""
        return LinearAttentionFacts(
            n_heads=self.n_heads,
            d_head=self.query.out_features // self.n_heads,
            d_value=self.value.out_features // self.n_heads,
            chunk=self.chunk,
            eps=EPS,
        )


def sums_so_far(
    q: Float[Tensor, "batch heads time features"],
    k: Float[Tensor, "batch heads time features"],
    v: Float[Tensor, "batch heads time d_value"],
    *,
    chunk: int,
    state: Float[Tensor, "batch heads features d_value"] | None = None,
    documents: Int[Tensor, "batch time"] | None = None,
) -> tuple[
    Float[Tensor, "batch heads time d_value"], Float[Tensor, "batch heads features d_value"]
]:
    """sum_(m <= n) (q_n . k_m) v_m for every n, in chunks, and sum_m k_m v_m^T over all.

    The chunks are computed in parallel: a cumulative sum gives the state before each of them.

    Args:
        q, k: (batch, heads, time, features). v: (batch, heads, time, d_value).
        chunk: tokens per chunk.
        state: the sum of k_m v_m^T over earlier tokens.
        documents: (batch, time), the number of each token's document, which starts from zero.

    See also:
        `pellucid.maths.linear_attention_in_chunks`.
    """
    time = q.shape[2]
    chunk = min(chunk, time)
    q, k, v = (_in_chunks(part, chunk) for part in (q, k, v))
    first_state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]) if state is None else state
    if documents is None:
        chunk_scores = q @ k.mT
        sums = torch.cat((first_state[:, :, None], k.mT @ v), dim=2).cumsum(2)
        carried, total, reading = sums[:, :, :-1], sums[:, :, -1], q
    else:
        number = _pieces(documents, chunk)
        last = number[..., -1:]
        chunk_scores = q @ k.mT * (number[..., :, None] == number[..., None, :])
        added = (k * (number == last)[..., None]).mT @ v
        continues = F.pad(last[:, :, 1:] == last[:, :, :-1], (0, 0, 1, 0), value=True)
        factor = continues.to(q.dtype)
        sums = linear_scan(factor, added.flatten(3), first_state.flatten(2)).view_as(added)
        carried = torch.cat((first_state[:, :, None], sums[:, :, :-1]), dim=2)
        # a token reads the state before its chunk only if its document ended that chunk
        previous_last = torch.cat((number[:, :, :1, :1], last[:, :, :-1]), dim=2)
        total, reading = sums[:, :, -1], q * (number == previous_last)[..., None]
    attended = chunk_scores.tril() @ v + reading @ carried
    return attended.flatten(2, 3)[:, :, :time], total


def _in_chunks(x: Tensor, chunk: int) -> Tensor:
    """(batch, heads, time, width) -> (batch, heads, chunks, chunk, width), zeros at the end."""
    batch, heads, time, width = x.shape
    return F.pad(x, (0, 0, 0, -time % chunk)).view(batch, heads, -1, chunk, width)


def _pieces(documents: Tensor, chunk: int) -> Tensor:
    """The number of each token's piece of text, from the left: (batch, 1, chunks, chunk)."""
    changes = documents[:, 1:] != documents[:, :-1]
    number = F.pad(changes.long().cumsum(1), (1, 0))
    padding = number[:, -1:].expand(-1, -number.shape[1] % chunk)
    return torch.cat((number, padding), dim=1).view(number.shape[0], 1, -1, chunk)


def _without_padding(k: Tensor, view: View) -> Tensor:
    """Keys with features of zero for padding, so that it adds nothing to any sum."""
    if view.padding is None:
        return k
    return k * view.padding[:, None, view.start :, None]

"""Linear attention: products of features in place of the softmax, so that the past is a sum."""

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

#: Keeps the normaliser above zero; features are positive, so it matters where there is no key.
EPS = 1e-6


class LinearAttention(nn.Module):
    """Attention whose scores are products of features: phi(q) . phi(k), with phi = elu + 1.

    o_n = sum_m (R_n phi(q_n) . R_m phi(k_m)) v_m / (sum_m phi(q_n) . phi(k_m) + eps)

    R turns features by their position where the scheme is rotary, in the numerator alone, so that
    nothing is divided by zero; it is the identity for other schemes, and what a scheme adds to
    scores cannot be added here. In a decoder the sums run over m <= n and are carried from chunk to
    chunk, and from call to call: time is linear in the text, and a step of generation costs the
    same however much was read. Sums are in float32 at least. Documents are kept apart where each
    lies in one piece.

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
        """What each token gathers from those it may see.

        Raises:
            PellucidError: documents and a prefix at once.
        """
        x = for_products(x)
        q, k, v = (
            wide(split_heads(part(x), self.n_heads)) for part in (self.query, self.key, self.value)
        )
        with as_given(x.device):
            q, k = elu_features(q), _without_padding(elu_features(k), view)
            turned_q, turned_k = positions.rotate(q, view), positions.rotate(k, view)
            ones = torch.ones_like(v[..., :1])
            values, keys = cache.state() or (None, None)
            gathered, values = self._sums(turned_q, turned_k, v, values, view)
            normaliser, keys = self._sums(q, k, ones, keys, view)
            cache.keep((values, keys))
            mixed = gathered / (normaliser + EPS)
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
                    "linear attention cannot keep documents apart and show a prefix to all at "
                    "once: pass one document to a row, or leave the prefix out"
                )
            # all see the prefix: it is there from the start, and not met again on the way
            at = torch.arange(k.shape[2], device=k.device)
            within = (at < view.prefix[:, None])[:, None, :, None]
            prefix_keys, ahead = k * within, k * ~within
            return sums_so_far(q, ahead, v, state=prefix_keys.mT @ v, chunk=self.chunk)
        if documents is None:
            state = k.mT @ v
            return q @ state, state
        forward_sums, state = sums_so_far(q, k, v, chunk=self.chunk, documents=documents)
        back = (part.flip(2) for part in (q, k, v))
        backward_sums, _ = sums_so_far(*back, chunk=self.chunk, documents=documents.flip(1))
        self_sums = (q * k).sum(-1, keepdim=True) * v  # both sums have it
        return forward_sums + backward_sums.flip(2) - self_sums, state

    def facts(self) -> LinearAttentionFacts:
        """Its heads, and what keeps its normaliser above zero."""
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

    Chunks need not wait for each other: what each adds is summed first. `state` is the sum of what
    came before. A change of document sets it to zero.

    See also:
        `pellucid.maths.linear_attention_in_chunks`.
    """
    time = q.shape[2]
    chunk = min(chunk, time)
    q, k, v = (_in_chunks(part, chunk) for part in (q, k, v))
    came = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]) if state is None else state
    if documents is None:
        within = q @ k.mT
        sums = torch.cat((came[:, :, None], k.mT @ v), dim=2).cumsum(2)
        carried, total, reading = sums[:, :, :-1], sums[:, :, -1], q
    else:
        number = _pieces(documents, chunk)
        last = number[..., -1:]
        within = q @ k.mT * (number[..., :, None] == number[..., None, :])
        added = (k * (number == last)[..., None]).mT @ v
        same = F.pad(last[:, :, 1:] == last[:, :, :-1], (0, 0, 1, 0), value=True)
        sums = linear_scan(same.to(q.dtype), added.flatten(3), came.flatten(2)).view_as(added)
        carried = torch.cat((came[:, :, None], sums[:, :, :-1]), dim=2)
        # of the chunk before, only what ended in the same document is read
        ended = torch.cat((number[:, :, :1, :1], last[:, :, :-1]), dim=2)
        total, reading = sums[:, :, -1], q * (number == ended)[..., None]
    gathered = within.tril() @ v + reading @ carried
    return gathered.flatten(2, 3)[:, :, :time], total


def _in_chunks(x: Tensor, chunk: int) -> Tensor:
    """(batch, heads, time, width) -> (batch, heads, chunks, chunk, width), zeros at the end."""
    batch, heads, time, width = x.shape
    return F.pad(x, (0, 0, 0, -time % chunk)).view(batch, heads, -1, chunk, width)


def _pieces(documents: Tensor, chunk: int) -> Tensor:
    """Pieces of text counted from the left, by chunk: (batch, 1, chunks, chunk)."""
    changes = documents[:, 1:] != documents[:, :-1]
    number = F.pad(changes.long().cumsum(1), (1, 0))
    padding = number[:, -1:].expand(-1, -number.shape[1] % chunk)
    return torch.cat((number, padding), dim=1).view(number.shape[0], 1, -1, chunk)


def _without_padding(k: Tensor, view: View) -> Tensor:
    """Features of zero where a token is padding: it adds nothing to any sum."""
    if view.padding is None:
        return k
    return k * view.padding[:, None, view.start :, None]

"""What a trained model is used for: chat, classification, embedding, masks, samples, scores.

Must not know: training.
"""

from pellucid.inference.chat import Chat, ChatPrompt, answer, end_ids, has_chat_template
from pellucid.inference.classification import (
    Classified,
    ClassShare,
    class_names,
    classify,
    has_several_labels,
)
from pellucid.inference.conversation import Conversation, Turn
from pellucid.inference.embedding import POOLS, Neighbour, Pool, embed, neighbours, ranked
from pellucid.inference.fill_mask import Filling, Mask, fill
from pellucid.inference.sample import beam_search, generate
from pellucid.inference.scoring import (
    Likely,
    Prediction,
    Score,
    ScoredToken,
    next_token,
    predictions,
    score,
)
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "POOLS",
    "Chat",
    "ChatPrompt",
    "ClassShare",
    "Classified",
    "Conversation",
    "Filling",
    "Likely",
    "Mask",
    "Neighbour",
    "Pool",
    "Prediction",
    "Score",
    "ScoredToken",
    "Turn",
    "answer",
    "beam_search",
    "class_names",
    "classify",
    "embed",
    "end_ids",
    "fill",
    "generate",
    "has_chat_template",
    "has_several_labels",
    "neighbours",
    "next_token",
    "predictions",
    "ranked",
    "score",
]

_take_old_words(__name__, globals())

"""The model card: `README.md` in an exported folder."""

from pellucid.exports.card.page import CARD, CardFacts, card

__all__ = ["CARD", "CardFacts", "card"]

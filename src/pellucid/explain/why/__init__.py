"""Why a model says a word rather than another one: the difference of two logits, taken apart."""

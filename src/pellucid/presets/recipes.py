"""The optimiser and schedule on which large language models have settled, as values to start from.

They are no whole run; a preset of a published model says what that model did.

Source:
    Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B (betas .9 and .95, eps
    1e-8, weight decay .1, cosine to a tenth); Touvron et al. 2023, "LLaMA", section 2.3 (the same
    betas and decay, 3e-4 for its 7B and 13B). Warm-ups differ with the length of training (GPT-3
    0.1% of it, Llama 2 0.4%); 1% is our choice, for runs that are shorter.
"""

from __future__ import annotations

from pellucid.config import AdamW, Cosine

LARGE_MODEL_OPTIMISER = AdamW(learning_rate=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
LARGE_MODEL_SCHEDULE = Cosine(warm_up=0.01, final=0.1)

"""Print generated texts, for people and as JSON.

A decoder's text follows its prompt. An encoder-decoder's text is complete, without its source.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.printing import escape_controls, print_result

if TYPE_CHECKING:
    from pellucid.generation import Beams, Continuation, Sampling
    from pellucid.runs import Run


def read_prompts(run: Run, action: str) -> Iterator[str]:
    """The prompts of a session on a terminal, until an empty line."""
    run.require_tokenizer()  # its refusal comes before the first prompt
    print(f"{run.folder} {action} what you write; an empty line ends the session.")
    while True:
        try:
            prompt = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not prompt:
            return
        yield prompt


@dataclass(slots=True, kw_only=True)
class TextPrinter:
    """Prints the texts of a run; warns once if a text is longer than the context."""

    run: Run
    logprobs: bool = False
    force: bool = False
    _warned: bool = field(default=False, init=False)

    def warn(self) -> None:
        """Print the warning that a text outgrew the context, once."""
        from pellucid.generation import seen_past_context

        if not self._warned:
            context = self.run.model.context_length
            print(
                f"the text outgrew the context of {context:,} tokens: from here on the model sees "
                f"{seen_past_context(context)} of it",
                file=sys.stderr,
            )
        self._warned = True

    def print_texts(
        self, arguments: argparse.Namespace, prompts: Sequence[str], decoding: Sampling | Beams
    ) -> None:
        """Print a text for each prompt, or the best ones of a beam search.

        Args:
            arguments: with `--json` the texts are JSON.
            prompts: the prompts or sources.
            decoding: how to choose tokens.
        """
        from pellucid import runs
        from pellucid.generation import Beams

        options: dict[str, Any] = {"when_outgrown": self.warn, "force": self.force}
        if isinstance(decoding, Beams):
            found = runs.beam_search(self.run, prompts, decoding, **options)
            texts = [{"best": [self._facts(text) for text in best]} for best in found]
            lines = self._lines(prompts, found, ranked=decoding.n_best > 1)
        else:
            continuations = runs.generate(self.run, prompts, decoding, **options)
            texts = [self._facts(text) for text in continuations]
            lines = self._lines(prompts, [[text] for text in continuations], ranked=False)
        key = "prompt" if runs.kind_of(self.run.model) == "decoder" else "source"
        facts = [{key: p} | text for p, text in zip(prompts, texts, strict=True)]
        print_result(arguments, facts, lines)

    def _facts(self, text: Continuation) -> dict[str, Any]:
        from pellucid.generation import BeamContinuation

        facts: dict[str, Any] = {"text": text.text, "ids": text.ids, "stopped": text.stopped}
        if self.logprobs:
            facts["logprobs"] = text.log_p
        if isinstance(text, BeamContinuation):
            facts |= {"score": text.score, "log_p": text.total_log_p}
        return facts

    def _lines(
        self, prompts: Sequence[str], texts: Sequence[Sequence[Continuation]], *, ranked: bool
    ) -> Iterator[str]:
        from pellucid.generation import BeamContinuation

        for prompt, best in zip(prompts, texts, strict=True):
            for rank, text in enumerate(best, start=1):
                if ranked and isinstance(text, BeamContinuation):
                    yield f"{rank}. score {text.score:.4f}, log P {text.total_log_p:.4f} nats"
                yield escape_controls(f"{self._visible(prompt)}{text.text}\n")
                if self.logprobs:
                    for token_id, log_p in zip(text.ids, text.log_p, strict=True):
                        yield f"{log_p:>10.4f}  {self.run.require_tokenizer().token(token_id)!r}"
                    yield f"{sum(text.log_p):>10.4f}  log P of the text, in nats\n"

    def stream(self, prompt: str, sampling: Sampling) -> None:
        """Print one text token by token, as the model generates it."""
        from pellucid.generation import stream
        from pellucid.saved_runs.inference_memory import check_writing

        run, tokenizer = self.run, self.run.require_tokenizer()
        check_writing(run, [prompt], sampling, force=self.force)
        pieces = stream(run.model, tokenizer, prompt, sampling, when_outgrown=self.warn)
        print(escape_controls(self._visible(prompt)), end="", flush=True)
        for piece in pieces:
            print(escape_controls(piece), end="", flush=True)
        print()

    def _visible(self, prompt: str) -> str:
        """The prompt as printed before its continuation; empty for a source."""
        return prompt if self.run.model.encoder is None else ""

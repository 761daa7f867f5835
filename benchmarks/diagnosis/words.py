"""What the page of results says that no number says. It knows no result."""

from __future__ import annotations

BEFORE = """# How often is the diagnosis right?

<!-- Written by `python -m benchmarks.diagnosis page`; do not edit. -->

`benchmarks/diagnosis` breaks small trainings on purpose, lets healthy but odd ones run beside
them, and asks `pellucid.diagnosis` about each, once, as a user would: `check` before the first
update, `watch` during training, `diagnose` afterwards. There is no healthy twin to compare with.

## At the default settings

What you get if you change nothing: `watch` may take 2% of the training's time, so that it looks
rarely. Two sets of Hugging Face loops, healthy and with faults, were made and run by others:

| | first set | second set |
|---|---|---|
| harmed loops detected | 83% (38 of 46) | 84% (57 of 68) |
| first cause right | 76% | 71% |
| false alarms | 2 of 30 | 1 of 44 |

These loops are not part of this project, and we have not run them ourselves. To see the difference
on your own loop, compare `watch(model, optimizer)` with `watch(model, optimizer,
max_overhead=None)`, which looks at the full rate.

## At the full rate

Everything below was measured with looks at their full rate, on faults of our own: it shows what
the rules can tell when they see enough, and not what the default budget sees.

```sh
# records, reruns for repair, judges, writes this page; what is there is not made again
python -m benchmarks.diagnosis evaluate --out DIR
# judges again, in minutes, without training
python -m benchmarks.diagnosis judge --split eval --out DIR
```

- **{date}**: {runs} trainings of {seconds} seconds each (benchmarks/results/{file}), of which
  {healthy} are healthy, and {classes} classes of faults, each in two levels and three seeds. By
  outcome, {n_harmful} faulty runs did harm (held-out loss more than three standard deviations above
  healthy seeds), {n_latent} broke an invariant and did no harm that shows (latent), and
  {n_harmless} turned out harmless: there, silence or a note is right, and they are counted apart.
- **Architectures**: a pre-norm GPT and a Llama-like model, on which thresholds were tuned; a
  post-norm encoder and an encoder-decoder, on which nothing was tuned, with ten classes each.
- **Text**: the documentation of Python's standard library, 96 characters; 3 layers, 64 wide, 16
  rows of 48, 140 updates, AdamW.
- **Thresholds** were chosen on development runs with other seeds and other levels of each fault
  (a few faults have no more than two levels: those are the same, with other seeds).
- **An alarm** is any finding of severity warn or worse. The **first answer** is the first of these.
  For each class the codes that are right answers were written down before the evaluation.
- **Cost**: probes took {check} s a run. Looks were made at their full rate (every 10 and every 25
  updates), which in trainings as small as these is {watching} of the time; what watching costs at
  its default budget is measured by `benchmarks/vitals.py`.
"""

AFTER = """Rules were computed from the same records. The tools of others that read logs were given
the losses, gradient norms, rates and held-out losses, with their defaults; a warning or worse
counts as an alarm. `torchmortem` reads no logs, and was not run. AutoTrainer's numbers for
vanishing and exploding gradients and dying units were applied to the same measurements; its rules
for oscillation and slow convergence were not. *Learned* is a forest of 600 trees, taught the
development runs, its limit set so that it alarms on 1% of those. It was not given
`batch.repetitive`, which most development runs had been recorded without.
"""

THREATS = """- Faults were put in by us, and their names are ours. Real mistakes differ, and come
  together.
- Models of this size do not show what appears at scale only, and 140 updates are not convergence:
  a fault that harms later counts as latent or harmless here.
- Noise in labels cannot be told from hard data. Here it can, because labels of next-token
  prediction can be compared with the inputs.
- The variants of healthy training are those that came to our mind. A variant is run with several
  seeds, so that false alarms are not independent: the interval is narrower than it should be.
- Where several codes are right answers, any of them counts.
- Everything ran on a CPU, in one process for each training. Nothing distributed was tried.
"""

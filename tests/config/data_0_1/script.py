"""A script for pellucid 0.1: an objective of its own on a preset, shown as TOML."""

from dataclasses import replace

from pellucid import config, presets

objective = config.MaskedTokens(chosen=0.2, masked=0.8, replaced=0.1)
run = replace(presets.find("nano-encoder"), objective=objective)
print(config.run_to_toml(run))

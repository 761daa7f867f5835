"""The styles in which people write loops: each trains a model under watch, as its users would."""

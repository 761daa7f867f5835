"""The checker that shape annotations are held against in tests: an int is a float, as in typing."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))

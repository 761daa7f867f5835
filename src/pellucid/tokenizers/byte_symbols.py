"""The symbols that stand for bytes in a byte-level vocabulary (Radford et al. 2019, encoder.py)."""

from __future__ import annotations

_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_UNPRINTED = [byte for byte in range(256) if byte not in _PRINTED]
BYTE_OF: dict[str, int] = {chr(byte): byte for byte in _PRINTED} | {
    chr(256 + place): byte for place, byte in enumerate(_UNPRINTED)
}
SYMBOL_OF: list[str] = sorted(BYTE_OF, key=BYTE_OF.__getitem__)

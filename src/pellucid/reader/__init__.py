"""Everything from outside is read here: files, pipes, JSON, TOML, tables, tensors, tokenizers.

One rule for all input: a file or a pipe, never a device, and never longer, deeper or wider than the
parser can handle. A refusal names the file, the place, the value there and the expected one.
A lint rule keeps parsers out of every other room.

Must not know: the meaning of what it reads.
"""

from pellucid.reader.json_values import json_values
from pellucid.reader.opening import (
    LARGE,
    SMALL,
    decode_text,
    file_sha256,
    is_pipe,
    open_file,
    read_bytes,
    read_text,
    refuse_open_device,
    short,
)
from pellucid.reader.tables import csv_rows
from pellucid.reader.tensors import open_tensors, parse_tensors, read_tensors
from pellucid.reader.tokenizer import MOST_TOKENS, is_panic, parse_tokenizer, read_tokenizer
from pellucid.reader.values import (
    Table,
    as_table,
    json_lines,
    parse_json,
    parse_json_table,
    parse_toml,
    read_json,
    read_json_table,
    read_toml,
)

__all__ = [
    "LARGE",
    "MOST_TOKENS",
    "SMALL",
    "Table",
    "as_table",
    "csv_rows",
    "decode_text",
    "file_sha256",
    "is_panic",
    "is_pipe",
    "json_lines",
    "json_values",
    "open_file",
    "open_tensors",
    "parse_json",
    "parse_json_table",
    "parse_tensors",
    "parse_tokenizer",
    "parse_toml",
    "read_bytes",
    "read_json",
    "read_json_table",
    "read_tensors",
    "read_text",
    "read_tokenizer",
    "read_toml",
    "refuse_open_device",
    "short",
]

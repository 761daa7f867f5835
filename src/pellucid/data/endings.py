"""Names of files that hold text: what is read when a folder is named.

A file that is named by itself may be called anything.
"""

from __future__ import annotations

PROSE = (".txt", ".text", ".md", ".markdown", ".rst", ".adoc", ".org", ".tex", ".bib")
PAGES = (".html", ".htm", ".xhtml", ".css", ".xml", ".srt", ".vtt")
SETTINGS = (".toml", ".yaml", ".yml", ".ini", ".cfg", ".cmake")
CODE = (
    *(".py", ".pyi", ".pyx", ".ipy", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".cu"),
    *(".java", ".kt", ".scala", ".groovy", ".clj", ".cs", ".fs", ".vb", ".go", ".rs", ".zig"),
    *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".vue", ".svelte", ".php", ".rb", ".pl"),
    *(".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".sql", ".lua", ".r", ".jl", ".m"),
    *(".swift", ".dart", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".lisp", ".el", ".scm"),
    *(".f90", ".f", ".asm", ".s", ".proto", ".graphql", ".tf", ".nix", ".vim"),
)
#: All of them.
SUFFIXES = (*PROSE, *CODE, *PAGES, *SETTINGS)

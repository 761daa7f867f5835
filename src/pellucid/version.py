"""The library's version and the version of what it writes to disk.

Must not know: anything else.
"""

#: The version of the library, and of the files that it writes.
__version__ = "0.2.0"

#: Version of run folders and checkpoints. A change of layout raises it and adds a migration
#: or a refusal that says what to do (see `pellucid.checkpoints`).
FORMAT = 2
#: Formats that this version reads. In configs of format 1 (pellucid 0.1) four objectives have other
#: names: see `pellucid.config.old_names`.
READABLE = (1, FORMAT)

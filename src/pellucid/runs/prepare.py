"""The data of a run: documents end to end, or rows."""

from __future__ import annotations

from pellucid import config
from pellucid.data import PreparedData, check_tokenizer, open_prepared
from pellucid.runs.prepare_examples import ready_rows
from pellucid.runs.prepare_text import Ready, ready_text
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.progress import Notify, silent


def ready_data(run: config.Run, notify: Notify, notify_progress: Notify = silent) -> Ready:
    """Read the data of a run, as far as its tokenizer needs.

    Args:
        run: the config.
        notify: takes a line for each step that begins.
        notify_progress: takes a line every few seconds.

    Raises:
        TextError: the data cannot be read, or are too few.
    """
    if isinstance(run.text.corpus, config.Rows):
        return ready_rows(run, notify, notify_progress)
    return Ready(*ready_text(run.text, notify, notify_progress))


def open_data(folder: RunFolder, corpus: config.Corpus) -> PreparedData:
    """The data in a run's folder, compared with its checksums.

    Args:
        folder: of the run.
        corpus: by the run's config; tokens at its URL are compared as they come.

    Raises:
        TextError: a file is missing or damaged, or belongs to another tokenizer.
    """
    data = open_prepared(folder.text, verify=True, corpus=corpus)
    check_tokenizer(folder.tokenizer, data.manifest.tokenizer_sha256)
    return data

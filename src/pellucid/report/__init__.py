"""Show a run's folder as one HTML file.

Must not know: weights, the model.
"""

from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words
from pellucid.report.story import Series, Story, build_story
from pellucid.report.vital_signs import SignText, vitals_page
from pellucid.report.write import Report, write_report

__all__ = ["Report", "Series", "SignText", "Story", "build_story", "vitals_page", "write_report"]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)

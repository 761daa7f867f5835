"""A run's folder in; one HTML file that shows it, out. Knows no model and opens no weights."""

from pellucid.report.story import Series, Story, tell
from pellucid.report.vital_signs import Said, vitals_page
from pellucid.report.write import Report, write_report

__all__ = ["Report", "Said", "Series", "Story", "tell", "vitals_page", "write_report"]

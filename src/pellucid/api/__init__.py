"""The API: a run as a server for programs that speak OpenAI's protocol.

Comes in: runs by name, and requests. Goes out: routes for a server, whose answers are texts with
their tokens.

Must not know: the page.
"""

from pellucid.api.models import Limits, ModelSource, ServedModels
from pellucid.api.refusals import ApiError, refusal_of
from pellucid.api.routes import api_routes

__all__ = ["ApiError", "Limits", "ModelSource", "ServedModels", "api_routes", "refusal_of"]

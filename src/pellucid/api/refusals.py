"""Refusals of the API, in OpenAI's shape: a status, a reason and a parameter."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from pellucid.errors import PellucidError

#: The `type` of an error by its HTTP status.
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}


class ApiError(PellucidError):
    """A request that is refused.

    Args:
        message: the fault, and the remedy.
        status: the HTTP status.
        param: the parameter that is wrong.
        code: a word for programs.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, Any]:
        """The body of the response."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self) -> JSONResponse:
        """The response; if the server is busy, it says when to try again."""
        headers = {"retry-after": "1"} if self.status in (429, 503) else None
        return JSONResponse(self.body(), status_code=self.status, headers=headers)


def refusal_of(message: str, status: int) -> JSONResponse:
    """The response to a request that the server's guard refuses."""
    return ApiError(message, status=status).response()


def broken() -> ApiError:
    """The refusal after a failure of pellucid itself, without its inside."""
    return ApiError(
        "pellucid failed while it answered: the terminal that it runs in shows the error",
        status=500,
        code="internal_error",
    )

"""Who may use the API, and what it refuses: always in OpenAI's shape, never with a trace."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid.api import ServedModels
from pellucid.runs import Run
from pellucid.web import open_session
from pellucid.web.app import app
from support.api import HERE, programs_of

ASKED = {"model": "base", "prompt": "say", "max_tokens": 2}


def error_of(response: Any) -> Any:
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in error["message"]
    return error


def test_a_program_needs_no_origin_and_a_page_of_another_site_is_refused(client: Any) -> None:
    assert client.post("/v1/completions", json=ASKED).status_code == 200
    answer = client.post("/v1/completions", json=ASKED, headers={"origin": HERE})
    assert answer.status_code == 200
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example"},
    ):
        for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models")):
            refused = client.request(method, path, json=ASKED, headers=headers)
            assert refused.status_code == 403
            assert error_of(refused)["type"] == "permission_error"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_form_can_send_is_refused(client: Any, kind: str) -> None:
    body = b'{"model": "base", "prompt": "say"}'
    refused = client.post("/v1/completions", content=body, headers={"content-type": kind})
    assert refused.status_code == 415
    assert "application/json" in error_of(refused)["message"]


def test_no_page_may_ask_first(client: Any) -> None:
    headers = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    preflight = client.options("/v1/completions", headers=headers)
    assert preflight.status_code == 403
    assert not any(name.startswith("access-control") for name in preflight.headers)


def test_with_a_token_only_who_has_it_may_ask(models: ServedModels, base: Run) -> None:
    page = app(open_session([base]), token="abc", programs=programs_of(models))
    program = TestClient(page, base_url=HERE)
    for path in ("/v1/models", "/metrics"):
        assert program.get(path).status_code in (401, 403)
        assert program.get(path, headers={"authorization": "Bearer abd"}).status_code in (401, 403)
        assert program.get(path, headers={"authorization": "abc"}).status_code in (401, 403)
        assert program.get(path, headers={"authorization": "Bearer abc"}).status_code == 200
    refused = program.post("/v1/completions", json=ASKED)
    assert refused.status_code == 401
    assert error_of(refused)["type"] == "authentication_error"
    # whether the server is there is no secret
    assert program.get("/healthz").json() == {"status": "ok"}


def test_other_routes_and_methods_are_refused_in_the_same_shape(client: Any) -> None:
    for method, path in (("GET", "/v1/files"), ("POST", "/v1/embeddings"), ("POST", "/v1/models")):
        refused = client.request(method, path, json={})
        assert refused.status_code in (404, 405)
        assert error_of(refused)["code"] == "unknown_route"


WRONG: list[tuple[str, Any, str]] = [
    ("completions", [], "must be a JSON object"),
    ("completions", {"prompt": "x"}, "model"),
    ("completions", ASKED | {"model": "other"}, "no model 'other'"),
    ("completions", ASKED | {"model": 7}, "model must be a text"),
    ("completions", ASKED | {"max_tokens": -1}, "max_tokens"),
    ("completions", ASKED | {"max_tokens": 1.5}, "max_tokens"),
    ("completions", ASKED | {"max_tokens": True}, "max_tokens"),
    ("completions", ASKED | {"temperature": 3}, "temperature"),
    ("completions", ASKED | {"temperature": "hot"}, "temperature"),
    ("completions", ASKED | {"top_p": -0.1}, "top_p"),
    ("completions", ASKED | {"n": 0}, "n must be"),
    ("completions", ASKED | {"n": 10**30}, "n must be"),
    ("completions", ASKED | {"seed": 2**64}, "seed"),
    ("completions", ASKED | {"stop": [""]}, "stop"),
    ("completions", ASKED | {"stop": ["a"] * 17}, "stop"),
    ("completions", ASKED | {"logprobs": 21}, "logprobs"),
    ("completions", ASKED | {"logprobs": True}, "logprobs"),
    ("completions", ASKED | {"logit_bias": {"x": 1}}, "logit_bias"),
    ("completions", ASKED | {"logit_bias": {"1": 101}}, "logit_bias"),
    ("completions", ASKED | {"logit_bias": {"99999": 1}}, "logit_bias"),
    ("completions", ASKED | {"prompt": []}, "prompt"),
    ("completions", ASKED | {"prompt": [[]]}, "prompt"),
    ("completions", ASKED | {"prompt": ["a", 1]}, "prompt"),
    ("completions", ASKED | {"prompt": [-1]}, "prompt has the token -1"),
    ("completions", ASKED | {"prompt": [10**9]}, "prompt has the token"),
    ("completions", ASKED | {"prompt": ["a"] * 257}, "prompt"),
    ("completions", ASKED | {"prompt": "\ud800"}, "half a character"),
    ("completions", ASKED | {"best_of": 2}, "best_of"),
    ("completions", ASKED | {"frequency_penalty": 1}, "frequency_penalty"),
    ("completions", ASKED | {"stream_options": {}}, "needs stream"),
    ("completions", ASKED | {"invented": 1}, "invented"),
    ("chat/completions", {"model": "tuned"}, "messages"),
    ("chat/completions", {"model": "tuned", "messages": []}, "messages"),
    ("chat/completions", {"model": "tuned", "messages": [3]}, "messages[0]"),
    ("chat/completions", {"model": "tuned", "messages": [{"role": "user"}]}, "content"),
    (
        "chat/completions",
        {"model": "tuned", "messages": [{"role": "tool", "content": "x"}]},
        "messages[0].role",
    ),
    (
        "chat/completions",
        {
            "model": "tuned",
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}],
        },
        "reads no images",
    ),
    (
        "chat/completions",
        {"model": "tuned", "messages": [{"role": "user", "content": "x" * 500}]},
        "this model's context holds",
    ),
    (
        "chat/completions",
        {"model": "tuned", "messages": [{"role": "user", "content": "x"}], "top_logprobs": 1},
        "needs logprobs",
    ),
    (
        "chat/completions",
        {"model": "tuned", "messages": [{"role": "user", "content": "x"}], "tools": [{}]},
        "tools",
    ),
]


@pytest.mark.parametrize(("path", "asked", "why"), WRONG)
def test_a_wrong_parameter_is_refused_by_its_name(
    client: Any, path: str, asked: Any, why: str
) -> None:
    import json

    refused = client.post(
        f"/v1/{path}",
        content=json.dumps(asked).encode(),
        headers={"content-type": "application/json"},
    )
    assert refused.status_code in (400, 404)
    error = error_of(refused)
    assert error["type"] == "invalid_request_error"
    assert why in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model":' * 20_000,
        b'{"temperature": NaN}',
        b'{"temperature": 1e999}',
        b'{"n": ' + b"9" * 20_000 + b"}",
        b'{"model": "base", "prompt": "x"} {}',
    ],
)
def test_hostile_json_is_refused(client: Any, body: bytes) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    refused = client.post("/v1/completions", content=body, headers=headers)
    assert refused.status_code == 400
    error_of(refused)


def test_a_body_without_an_end_is_refused(client: Any) -> None:
    headers = {"content-type": "application/json"}
    refused = client.post("/v1/completions", content=b" " * 4_000_001, headers=headers)
    assert refused.status_code == 413
    error_of(refused)


def test_a_failure_of_ours_is_said_without_its_inside(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("pellucid.api.routes.make_plan", fail)
    failed = client.post("/v1/completions", json=ASKED)
    assert failed.status_code == 500
    assert "secret" not in failed.text
    assert error_of(failed)["type"] == "server_error"


def test_the_counts_are_prometheus_text(client: Any) -> None:
    client.post("/v1/completions", json=ASKED)
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {"pellucid_requests_total", "pellucid_first_token_seconds"} <= names
    for line in lines:
        if not line.startswith("#"):
            assert line.split("{")[0].startswith("pellucid_")
            float(line.rsplit(" ", 1)[1])
    matching_lines = [line for line in lines if 'route="/v1/completions",status="200"' in line]
    assert int(matching_lines[0].rsplit(" ", 1)[1]) >= 1

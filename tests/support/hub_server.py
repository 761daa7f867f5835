"""A hub on this machine: the routes of Hugging Face's that `huggingface_hub` asks."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repository:
    """Files by path; what else a hub knows of a repository."""

    files: dict[str, bytes] = field(default_factory=dict)
    private: bool = False
    gated: bool = False


@dataclass
class Hub:
    """Repositories by kind and name, such as ("models", "ada/stories"), and the requests."""

    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    token: str = "hf_secret"
    requests: list[str] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    #: answers every request with this status instead
    status: int | None = None
    url: str = ""

    def model(self, name: str, files: dict[str, bytes], **facts: bool) -> Repository:
        """A new model."""
        return self.repositories.setdefault(("models", name), Repository(files, **facts))

    def dataset(self, name: str, files: dict[str, bytes]) -> Repository:
        """A new dataset."""
        return self.repositories.setdefault(("datasets", name), Repository(files))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        self._route("GET")

    def do_HEAD(self) -> None:
        self._route("HEAD")

    def do_POST(self) -> None:
        self._route("POST")

    def do_PUT(self) -> None:
        self._route("PUT")

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _route(self, method: str) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.hub.requests.append(f"{method} {path}")
        if self.hub.status is not None:
            return self._answer(self.hub.status, {})
        for pattern, handle in (
            (r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?", self._info),
            (r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._file),
            (r"/api/repos/create", self._create),
            (r"/api/models/([^/]+/[^/]+)/preupload/[^/]+", self._preupload),
            (r"/api/models/([^/]+/[^/]+)/commit/[^/]+", self._commit),
            (r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self._batch),
            (r"/upload/([0-9a-f]+)", self._upload),
            (r"/api/validate-yaml", self._validate),
        ):
            if match := re.fullmatch(pattern, path):
                return handle(*match.groups())
        return self._answer(404, {"error": "no such route"})

    @property
    def _allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def _repository(self, kind: str, name: str, revision: str | None) -> Repository | None:
        repository = self.hub.repositories.get((kind, name))
        if repository is None or (repository.private and not self._allowed):
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            return None
        if repository.gated and not self._allowed:
            self._answer(403, {"error": "gated"}, {"X-Error-Code": "GatedRepo"})
            return None
        if revision not in (None, "main", "v1", SHA):
            self._answer(404, {"error": "no revision"}, {"X-Error-Code": "RevisionNotFound"})
            return None
        return repository

    def _info(self, kind: str, name: str, revision: str | None) -> None:
        if (repository := self._repository(kind, name, revision)) is not None:
            files = [{"rfilename": n, "size": len(c)} for n, c in repository.files.items()]
            facts = {"id": name, "sha": SHA, "private": repository.private, "siblings": files}
            self._answer(200, facts)

    def _file(self, kind: str | None, name: str, revision: str, path: str) -> None:
        if (repository := self._repository(kind or "models", name, revision)) is None:
            return
        if (content := repository.files.get(path)) is None:
            self._answer(404, {"error": "no file"}, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha256(content).hexdigest()
        self._send(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": SHA})

    def _create(self) -> None:
        if not self._allowed:
            return self._answer(401, {"error": "no token"})
        request = json.loads(self.body)
        name = f"{request['organization']}/{request['name']}"
        if ("models", name) in self.hub.repositories:
            return self._answer(409, {"url": f"{self.hub.url}/{name}"})
        self.hub.model(
            name, {}, private=request.get("private") or request.get("visibility") == "private"
        )
        return self._answer(200, {"url": f"{self.hub.url}/{name}", "id": name})

    def _preupload(self, name: str) -> None:
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(self.body)["files"]
        ]
        self._answer(200, {"files": files})

    def _batch(self, name: str) -> None:
        objects = [
            {
                **requested,
                "actions": {"upload": {"href": f"{self.hub.url}/upload/{requested['oid']}"}},
            }
            for requested in json.loads(self.body)["objects"]
        ]
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _upload(self, oid: str) -> None:
        self.hub.objects[oid] = self.body
        self._answer(200, {})

    def _commit(self, name: str) -> None:
        repository = self.hub.repositories["models", name]
        for line in self.body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                repository.files[value["path"]] = self.hub.objects[value["oid"]]
        url = f"{self.hub.url}/{name}/commit/{SHA}"
        self._answer(200, {"success": True, "commitOid": SHA, "commitUrl": url})

    def _validate(self) -> None:
        self._answer(200, {"errors": [], "warnings": []})

    def _answer(self, status: int, table: Any, headers: dict[str, str] | None = None) -> None:
        self._send(
            status,
            json.dumps(table).encode(),
            {"Content-Type": "application/json"} | (headers or {}),
        )

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def running_hub() -> Generator[Hub]:
    """A hub on a free port of this machine."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""A server on this machine: it has an address, and serves the page until it is stopped."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import closing
from signal import SIGINT
from urllib.parse import quote

from pellucid.errors import PellucidError, Signalled
from pellucid.web.app import app
from pellucid.web.bounds import Server
from pellucid.web.security import LOCAL, ProgramRoutes
from pellucid.web.session import Session

HOST = "127.0.0.1"
PORT = 7357
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def serve(
    session: Session,
    *,
    host: str = HOST,
    port: int | None = None,
    ready: Callable[[str], None] = lambda address: None,
    fragment: str = "",
    token: str | None = None,
    programs: ProgramRoutes | None = None,
) -> None:
    """Serve until a signal ends it. For other machines there is always a token.

    Args:
        session: Answers the requests.
        host: The address to listen on.
        port: None for the usual port, or a free one if that is in use.
        ready: Called with the page's address once a browser can open it.
        fragment: The end of that address, which chooses a view.
        token: A secret that every client has to send. Without one it is made up if other machines
            can reach the server.
        programs: Routes for programs, in addition to the page.

    Raises:
        KeyboardInterrupt: SIGINT ended it.
        Signalled: Another signal ended it.
        PellucidError: The port is in use or not allowed, or the host is not of this machine.
    """
    with closing(_bound(host, port)) as bound:
        bound_port = bound.getsockname()[1]
        wide = host not in _LOCAL_HOSTS
        if session.course is not None:
            session.course.runs_code = not wide
        token = token or (secrets.token_urlsafe(18) if wide else None)
        host_in_address = f"[{host}]" if ":" in host else host
        hosts = [*LOCAL, host_in_address, *_own_names()] if wide else LOCAL
        shown_host = socket.gethostname() if host in ("0.0.0.0", "::") else host_in_address
        query = f"?token={quote(token)}" if token else ""
        address = f"http://{shown_host}:{bound_port}/{query}{fragment}"
        server = Server(app(session, hosts=hosts, token=token, programs=programs))
        ready(address)
        server.run(sockets=[bound])
    if server.ended_by is not None:
        raise KeyboardInterrupt if server.ended_by == SIGINT else Signalled(server.ended_by)


def _own_names() -> list[str]:
    """The names and addresses of this machine on its network."""
    name = socket.gethostname()
    try:
        return [name, *socket.gethostbyname_ex(name)[2]]
    except OSError:
        return [name]


def _bound(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (PORT, 0) if port is None else (port,):
        bound = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # on other systems it would take the port from another program
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, candidate))
            # from now on an early browser waits instead of being refused
            bound.listen(128)
        except (OSError, OverflowError) as error:
            bound.close()
            if port is None and candidate == PORT and isinstance(error, OSError):
                continue
            raise PellucidError(_bind_error(host, candidate, error)) from None
        return bound
    raise PellucidError(f"no port is free on {host}: close another program")


def _bind_error(host: str, port: int, error: OSError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return (
            f"a port is a number from 0 to 65535, not {port}: leave --port out to take a free one"
        )
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use, perhaps by another page of pellucid: choose another with "
            "--port, or leave --port out to take a free one"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this user does not have: choose one above 1023"
    return f"{host} cannot be listened on ({error.strerror or error}): leave --host out"

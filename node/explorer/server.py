"""The pages over HTTP: read-only, on this machine unless told otherwise, and without anything from elsewhere."""

import asyncio
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.base import RequestResponseEndpoint

from fedgrove.chain.network.access import Network
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.store import ContentReader, NotFound, StoreError
from fedgrove.node.explorer.api import RunsApi, answer_api
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.comparing import ComparingPages, Shown
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.options import NO_OPTIONS, PageOptions
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.sources import LiveSource
from fedgrove.node.explorer.views.blobs import MAX_MODEL_BYTES
from fedgrove.node.explorer.views.comparison import version_of
from fedgrove.node.explorer.watch import IndexWatch

_log = logging.getLogger(__name__)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_LISTENERS = 32
WHOLE_BYTES = 16 << 20
_LOOK_SECONDS = 0.25
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f.]*:[0-9a-f:.]*)\]|(?P<name>[a-z0-9.-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_LAST_PORT = 65535
_BEAT_SECONDS = 15.0
_STOP_SECONDS = 5.0
_SUFFIXES = {"model": ".safetensors", "config": ".json", "metrics": ".json"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}


def make_app(
    *watches: IndexWatch, hosts: frozenset[str] | None = LOOPBACK, options: PageOptions = NO_OPTIONS
) -> FastAPI:
    """The application.

    Parameters
    ----------
    hosts : frozenset of str or None
        Names under which the pages may be asked for; others are refused, so that no site can read them through a name
        of its own that leads here. None allows any.
    """
    app = _guarded(hosts)
    answer_api(app, RunsApi(watches, options))
    if len(watches) == 1:
        _show(app, Pages(watches[0], options=options), watches[0])
        return app
    for number, watch in enumerate(watches, 1):
        part = _bare()
        _show(part, Pages(watch, options=options, compared=True), watch)
        app.mount(f"/runs/{number}", part)
    _compare(app, ComparingPages(watches, options), watches)
    return app


def _bare() -> FastAPI:
    return FastAPI(title="fedgrove explorer", docs_url=None, redoc_url=None, openapi_url=None)


def _guarded(hosts: frozenset[str] | None) -> FastAPI:
    """An application that answers nobody but readers who ask for it by these names."""
    app = _bare()

    @app.middleware("http")
    async def guard(request: Request, proceed: RequestResponseEndpoint) -> Response:
        if hosts is not None and host_of(request.headers.getlist("host")) not in hosts:
            return PlainTextResponse("Open this page as 127.0.0.1 or localhost.\n", 421, HEADERS)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("These pages are read-only.\n", 405, HEADERS | {"allow": "GET, HEAD"})
        try:
            answer = await proceed(request)
        except Exception:
            _log.exception("no answer to %s", inert(request.url.path))
            answer = PlainTextResponse("The explorer failed to answer: its log has the reason.\n", 500)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    return app


def _site(
    app: FastAPI,
    version: Callable[[], int],
    show: Callable[[str, str, str], Response],
    failed: Callable[[str], Response],
) -> None:
    """Style and scripts, events about changes of a version, and pages: ``show`` gets path, search and what is above."""
    listeners = _Listeners(version)
    app.mount("/static", StaticFiles(directory=str(files("fedgrove.node.explorer").joinpath("static"))))

    @app.get("/events")
    async def events(request: Request, since: int = 0) -> Response:
        return listeners.listen(request, since)

    @app.api_route("/{path:path}", methods=["GET", "HEAD"])
    def page(request: Request, path: str, q: str = "") -> Response:
        above = request.scope.get("root_path", "")
        try:
            return show(path, q, above)
        except Exception:
            _log.exception("cannot make the page %s/%s", above, inert(path))
            return failed(path)


def _compare(app: FastAPI, pages: ComparingPages, watches: Sequence[IndexWatch]) -> None:
    """The pages that compare runs."""

    def show(path: str, words: str, above: str) -> Response:
        if path in {f"runs/{number}" for number in range(1, len(watches) + 1)}:
            return RedirectResponse(f"/{path}/", 308)
        shown = pages.render(path)
        return PlainTextResponse("There is no page here.\n", 404) if shown is None else _response(shown, 200)

    _site(app, lambda: version_of(watches), show, lambda path: _response(pages.failed(path), 500))


def _response(shown: Shown, status: int) -> Response:
    return Response(shown.text, status, media_type=shown.media_type)


def _show(app: FastAPI, pages: Pages, watch: IndexWatch) -> None:
    """The pages of one run."""

    @app.get("/raw/{digest}")
    def raw(digest: str) -> Response:
        return _raw(watch, digest)

    def show(path: str, words: str, above: str) -> Response:
        if path == "search/" and (hit := pages.only_hit(words)):
            return RedirectResponse(f"../{hit}", 303)
        shown = pages.render(path, words)
        if shown is not None:
            return HTMLResponse(shown)
        if path and not path.endswith("/") and pages.render(path + "/", words) is not None:
            return RedirectResponse(f"{above}/{path}/", 308)
        return HTMLResponse(pages.missing(path), 404)

    _site(app, lambda: watch.sight.version, show, lambda path: HTMLResponse(pages.failed(path), 500))


def host_of(headers: list[str]) -> str:
    """The name that a page was asked for by, without the port; empty unless there is one Host header that is whole."""
    found = _HOST.fullmatch(headers[0].lower()) if len(headers) == 1 else None
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return ""
    return found["six"] or found["name"]


class _Listeners:
    """Open streams of server-sent events about changes of a version; at most this many."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._open = 0

    def listen(self, request: Request, since: int) -> Response:
        if self._open >= MAX_LISTENERS:
            return PlainTextResponse("Too many pages are open.\n", 503)
        return StreamingResponse(self._stream(request, since), media_type="text/event-stream")

    async def _stream(self, request: Request, version: int) -> AsyncIterator[str]:
        """One event whenever something has changed since ``version``, and a comment now and then."""
        self._open += 1
        silent = 0.0
        try:
            yield "retry: 2000\n\n"
            while not await request.is_disconnected():
                now = self._version()
                if now != version:
                    version, silent = now, 0.0
                    yield f"event: change\nid: {now}\ndata: {now}\n\n"
                elif silent > _BEAT_SECONDS:
                    silent = 0.0
                    yield ": still here\n\n"
                silent += _LOOK_SECONDS
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._open -= 1


def _raw(watch: IndexWatch, name: str) -> Response:
    """The bytes behind a digest that the ledger names, and nothing else of the store; every block is verified."""
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        digest = b""
    if not watch.sight.read:
        return PlainTextResponse("The records are still being read: ask again.\n", 503, {"retry-after": "1"})
    row = watch.index.row("SELECT role FROM blobs WHERE digest = ?", digest) if watch.index else None
    if row is None or digest.hex() != name:
        return PlainTextResponse("This digest is not in any record.\n", 404)
    store = watch.source.store
    try:
        root = store.root(digest, MAX_MODEL_BYTES)
        chunks = store.stream(digest, MAX_MODEL_BYTES)
        body = b"".join(chunks) if root.size <= WHOLE_BYTES else None
    except NotFound:
        return PlainTextResponse("The store does not hold it.\n", 404)
    except StoreError:
        return PlainTextResponse("The store could not return all of it.\n", 502)
    headers = {
        "content-disposition": f'attachment; filename="{name[:16]}{_SUFFIXES.get(row["role"], ".bin")}"',
        "content-length": str(root.size),
    }
    kind = "application/octet-stream"
    if body is not None:
        return Response(body, media_type=kind, headers=headers)
    return StreamingResponse(_chunks(chunks), media_type=kind, headers=headers)


def _chunks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A large blob. Where the store fails midway the answer ends short of its length: no reader takes it for whole."""
    try:
        yield from chunks
    except StoreError:
        return


@contextmanager
def serving(
    *watches: IndexWatch, host: str = "127.0.0.1", port: int = 0, options: PageOptions = NO_OPTIONS
) -> Iterator[str]:
    """Serve in a thread while the block runs; gives the address of the pages. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        app = make_app(*watches, hosts=LOOPBACK if host in LOOPBACK else None, options=options)
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        try:
            yield f"http://{shown}:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS)


@contextmanager
def live_pages(
    network: Network, deployment: Deployment, store: ContentReader, name: str, command: str, indexes: Path
) -> Iterator[str]:
    """Serve pages about a federation on a free port of this machine; gives their address.

    Parameters
    ----------
    name, command : str
        What people call the source, and the command that audits the same.
    """
    source = LiveSource(network, deployment, store, name, command)
    with open_index(source, indexes) as index, IndexWatch(source, index) as watch, serving(watch) as address:
        yield address

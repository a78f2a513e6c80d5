"""Process of an embedded chain behind JSON-RPC on 127.0.0.1, for machines without a node such as anvil.

``python -m fedgrove.chain.embedded.rpc_server PORT JOURNAL SECONDS`` makes a block every SECONDS, keeps all of them in
the file JOURNAL, and ends at SIGTERM. It is for practice: one process computes everything, and a start repeats all
blocks.
"""

import json
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fedgrove.chain.embedded import recursion_limit_kept

with recursion_limit_kept():
    from fedgrove.chain.embedded.pool import PooledNetwork
    from fedgrove.chain.embedded.rpc_answers import Answers

MOST_BYTES = 16 << 20
MOST_CALLS = 1_000
IDLE_SECONDS = 60.0


class Handler(BaseHTTPRequestHandler):
    """Requests alone or in lists, by POST."""

    answers: Answers
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    # One packet an answer: headers that go ahead make the body wait for the other side's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if self.headers.get("Origin") or not size.isdigit() or int(size) > MOST_BYTES:  # no web page drives the chain
            self.close_connection = True
            self.send_error(403 if self.headers.get("Origin") else 413)
            return
        body = json.dumps(self._answer(self.rfile.read(int(size)))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, body: bytes) -> dict | list:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            request = None
        if isinstance(request, list):
            return [self.answers.answer(each) for each in request[:MOST_CALLS]]
        return self.answers.answer(request)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - http.server names it
        """Keep requests out of the log."""


class Server(ThreadingHTTPServer):
    """A thread per connection, all of which end with the process."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what went wrong in a line; clients that have gone are no error."""
        fault = sys.exc_info()[1]
        if not isinstance(fault, ConnectionError | TimeoutError):
            print(f"a request failed: {fault!r}", file=sys.stderr, flush=True)


def make_blocks(network: PooledNetwork, seconds: float, stopped: threading.Event) -> None:
    """Make a block every ``seconds`` until told to stop; what was missed on a busy machine is not made up for."""
    due = time.monotonic() + seconds
    while not stopped.wait(max(0.0, due - time.monotonic())):
        network.mine()
        due = max(due + seconds, time.monotonic())


def main(port: int, state_file: Path, seconds: float) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with PooledNetwork(state_file) as network:
        Handler.answers = Answers(network)
        server = Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        make_blocks(network, seconds, stopped)
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))

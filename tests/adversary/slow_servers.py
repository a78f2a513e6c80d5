"""Servers that hold whoever asks them, or send more than anybody can keep: plain sockets on 127.0.0.1."""

import json
import socket
import threading
from contextlib import contextmanager

DRIP_SECONDS = 0.05
DEEP = b"[" * 200_000 + b"]" * 200_000
WORDS = "\x1b[2J\x1b]0;owned\x07 fine\r\nverified\u202e \ud800"


def status(line=b"200 OK", *headers):
    return b"HTTP/1.1 " + line + b"\r\n" + b"".join(header + b"\r\n" for header in headers)


def whole(body, line=b"200 OK"):
    return status(line, b"Content-Length: %d" % len(body), b"Connection: close") + b"\r\n" + body


def drip(connection, over, start, piece=b"x"):
    connection.sendall(start)
    while not over.wait(DRIP_SECONDS):
        connection.sendall(piece)


def flood(connection, over, start, piece):
    connection.sendall(start)
    while not over.is_set():
        connection.sendall(piece)


def slow_header(connection, over):
    drip(connection, over, status() + b"X-Slow: ")


def slow_status(connection, over):
    drip(connection, over, b"HTTP/1.1 200 O", b"K")


def slow_body(connection, over):
    drip(connection, over, status() + b"\r\n", b" ")


def endless_header(connection, over):
    flood(connection, over, status(), b"X-Long: " + b"x" * 4000 + b"\r\n")


def endless_continue(connection, over):
    flood(connection, over, b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def endless_body(connection, over):
    flood(connection, over, status() + b"\r\n", b" " * (1 << 20))


def endless_refusal(connection, over):
    flood(connection, over, status(b"500 Internal Server Error") + b"\r\n", b" " * (1 << 20))


def deep(connection, over):
    connection.sendall(whole(DEEP))


def deep_refusal(connection, over):
    connection.sendall(whole(DEEP, b"500 Internal Server Error"))


def false_length(connection, over):
    connection.sendall(status(b"200 OK", b"Content-Length: 1000000000000") + b"\r\n{}")


SPOILERS = (
    *(slow_header, slow_status, slow_body, endless_header, endless_continue, endless_body, endless_refusal),
    *(deep, deep_refusal, false_length),
)


def words_of_a_node(connection, over):
    fault = {"code": -32000, "message": WORDS}
    connection.sendall(whole(json.dumps({"jsonrpc": "2.0", "id": 1, "error": fault}).encode()))


def words_of_a_store(connection, over):
    connection.sendall(whole(json.dumps({"Message": WORDS, "Code": 0}).encode(), b"500 Internal Server Error"))


@contextmanager
def serving(spoil):
    """A server that reads a request's header and hands the connection to ``spoil(connection, over)``; its URL."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def attend(connection):
        with connection:
            try:
                while b"\r\n\r\n" not in connection.recv(1 << 16):
                    pass
                spoil(connection, over)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):  # what is still being sent, so that it does not break the answer
                    pass
            except OSError:
                return  # it has gone

    def accept():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=attend, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()

"""Have the server at the socket run ``fedgrove`` with this process's arguments, and end as it does."""

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until it is known where to
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
server.connect(sys.argv[1])
ignored = [each for each in FORWARDED if signal.getsignal(each) == signal.SIG_IGN]  # as a shell has it for jobs in "&"
request = {"arguments": sys.argv[2:], "folder": os.getcwd(), "variables": dict(os.environ), "ignored": ignored}
socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
process = int(server.recv(64))
for number in FORWARDED:
    if number not in ignored:
        signal.signal(number, lambda number, _: os.kill(process, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
code = os.waitstatus_to_exitcode(int(server.recv(64) or b"9"))
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
os._exit(code)

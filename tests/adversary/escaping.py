"""A task's code that tries to get out of its sandbox: each function is one attempt and says whether it succeeded.

It runs in the sandbox, so it imports nothing of the tests; where things are outside it learns from the header.
"""

import atexit
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
SIZES = struct.Struct("!IQ")
REPLY = 4


def result(escaped, **more):
    return {"escaped": bool(escaped), **more}, {}


def fine(header, tensors, data):
    return {"sum": float(sum(tensor.sum() for tensor in tensors.values()))}, tensors


# Files


def read_keystore(header, tensors, data):
    return result(header["secret"] in Path(header["keystore"]).read_text())


def list_home(header, tensors, data):
    return result(os.listdir(Path(header["keystore"]).parent))


def watch_home(header, tensors, data):
    """When the member opens its keystore, or anybody a file of the folder, although none can be read."""
    events = checked(LIBC.inotify_init1(os.O_NONBLOCK))
    watch = LIBC.inotify_add_watch(events, os.fsencode(Path(header["keystore"]).parent), 0xFFF)
    return result(checked(watch) >= 0)


def read_sibling_of_data(header, tensors, data):
    return result((data.parent / "other.txt").read_text() or (Path(header["data"]).parent / "other.txt").read_text())


def read_neighbour_of_data(header, tensors, data):
    return result((Path(header["data"]).parent / "other.txt").read_text())


def read_shadow(header, tensors, data):
    return result(Path("/etc/shadow").read_text())


def read_accounts(header, tensors, data):
    return result(Path("/etc/passwd").read_text())


def follow_link(header, tensors, data):
    os.symlink(header["keystore"], "link")
    return result(header["secret"] in Path("link").read_text())


def follow_link_of_process(header, tensors, data):
    return result(os.listdir(f"/proc/{header['victim']}/root{Path(header['keystore']).parent}"))


def link_hard(header, tensors, data):
    os.link(header["keystore"], "link")
    return result(Path("link").exists())


def write_outside(header, tensors, data):
    Path(header["open"], "left").write_text("here")
    return result(Path(header["open"], "left").exists())


def write_task(header, tensors, data):
    Path(__file__).with_name("left").write_text("here")
    return result(True)


def overwrite_task(header, tensors, data):
    with open(__file__, "a"):
        return result(True)


def overwrite_data(header, tensors, data):
    with open(data, "a"):
        return result(True)


def overwrite_fedgrove(header, tensors, data):
    import fedgrove.node.tasks.sandbox.script as script

    with open(script.__file__, "a"):
        return result(True)


def make_folder_at_root(header, tensors, data):
    os.mkdir("/left")
    return result(True)


def change_mode(header, tensors, data):
    os.chmod(header["keystore"], 0o777)
    return result(True)


def change_times(header, tensors, data):
    os.utime(header["keystore"], (0, 0))
    return result(True)


def change_attribute(header, tensors, data):
    os.setxattr(header["keystore"], "user.left", b"here")
    return result(True)


def truncate(header, tensors, data):
    os.truncate(header["keystore"], 0)
    return result(True)


def remove(header, tensors, data):
    os.unlink(Path(header["open"], "removable"))
    return result(True)


def write_core_pattern(header, tensors, data):
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))  # nothing is written: it is the machine's
    return result(True)


def write_oom_score(header, tensors, data):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    return result(True)


def read_disk(header, tensors, data):
    return result(any(open(f"/dev/{name}", "rb").read(1) for name in ("vda", "sda", "nvme0n1", "mem", "kmsg")))


# Other processes


def read_environments(header, tensors, data):
    return result(any(header["marker"].encode() in environment for environment in environments(header)))


def environments(header):
    for pid in {*filter(str.isdigit, os.listdir("/proc")), str(header["victim"])} - {str(os.getpid())}:
        try:
            yield Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue


def read_first_environment(header, tensors, data):
    return result(Path("/proc/1/environ").read_bytes())


def see_victim(header, tensors, data):
    return result(header["command"] in Path(f"/proc/{header['victim']}/cmdline").read_text())


def read_memory(header, tensors, data):
    with open(f"/proc/{header['victim']}/mem", "rb"):
        return result(True)


def read_memory_of_parent(header, tensors, data):
    with open(f"/proc/{os.getppid()}/mem", "rb"):
        return result(True)


def trace(header, tensors, data):
    return result(checked(LIBC.ptrace(16, header["victim"], 0, 0)) == 0)  # PTRACE_ATTACH


def trace_parent(header, tensors, data):
    return result(checked(LIBC.ptrace(16, os.getppid(), 0, 0)) == 0)


def read_victim(header, tensors, data):
    buffer = ctypes.create_string_buffer(8)
    place = struct.pack("QQ", ctypes.addressof(buffer), 8)
    count = LIBC.process_vm_readv(header["victim"], place, 1, place, 1, 0)
    # EFAULT: it was allowed to, but nothing lies at that address.
    return result(count >= 0 or ctypes.get_errno() == errno.EFAULT or checked(count))


def kill_victim(header, tensors, data):
    os.kill(header["victim"], signal.SIGKILL)
    return result(True)


def kill_parent(header, tensors, data):
    os.kill(os.getppid(), signal.SIGKILL)
    return result(True)


def kill_all(header, tensors, data):
    os.kill(-1, signal.SIGTERM)
    return result(True)


def kill_group(header, tensors, data):
    os.killpg(os.getpgid(os.getppid()) or os.getpid(), signal.SIGTERM)
    return result(True)


def queue_signal(header, tensors, data):
    information = struct.pack("iii", signal.SIGTERM, 0, -1).ljust(128, b"\0")
    return result(checked(LIBC.syscall(129, header["victim"], signal.SIGTERM, information)) == 0)


def signal_by_descriptor(header, tensors, data):
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, header["victim"])
    fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writer, b"x")
    return result(True)


def signal_by_process_descriptor(header, tensors, data):
    signal.pidfd_send_signal(os.pidfd_open(header["victim"]), signal.SIGTERM)
    return result(True)


def limit_victim(header, tensors, data):
    resource.prlimit(header["victim"], resource.RLIMIT_NOFILE, (0, 0))
    return result(True)


def slow_victim(header, tensors, data):
    os.sched_setaffinity(header["victim"], {min(os.sched_getaffinity(0))})
    return result(True)


def lower_priority_of_victim(header, tensors, data):
    os.setpriority(os.PRIO_PROCESS, header["victim"], 19)
    return result(True)


# Network


def connect(header, tensors, data):
    return result(socket.create_connection(("127.0.0.1", header["port"]), 5))


def listen(header, tensors, data):
    return result(socket.create_server(("127.0.0.1", 0)))


def send_datagram(header, tensors, data):
    return result(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"query", ("127.0.0.1", header["port"])))


def connect_by_path(header, tensors, data):
    return result(socket.socket(socket.AF_UNIX).connect(header["unix"]) is None)


def connect_by_name(header, tensors, data):
    return result(socket.socket(socket.AF_UNIX).connect("\0" + header["abstract"]) is None)


def ask_kernel(header, tensors, data):
    return result(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))


def pair(header, tensors, data):
    return result(socket.socketpair())


# New processes


def fork(header, tensors, data):
    pid = os.fork()
    if not pid:
        os._exit(0)
    return result(os.waitpid(pid, 0)[1] == 0)


def fork_bomb(header, tensors, data):
    children = [spare() for _ in range(20)]
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return result(children)


def spare():
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(0)
    return pid


def start_program(header, tensors, data):
    import subprocess

    return result(subprocess.run(["/usr/bin/true"]).returncode == 0)


def become_program(header, tensors, data):
    os.execv(sys.executable, [sys.executable, "-c", "import os; os.write(4, b'')"])


def spawn(header, tensors, data):
    return result(os.posix_spawn("/usr/bin/true", ["true"], {}))


# Resources


def threads(header, tensors, data):
    release, started = threading.Event(), 0
    try:
        while started < header["most"]:
            threading.Thread(target=release.wait, daemon=True).start()
            started += 1
    finally:
        release.set()
    return result(True)


def memory(header, tensors, data):
    return result(len(bytearray(header["most"])))


def mapped_memory(header, tensors, data):
    return result(mmap.mmap(-1, header["most"]))


def file_in_memory(header, tensors, data):
    return result(os.memfd_create("left") > 0)


def disk(header, tensors, data):
    return result(fill(Path("."), header["most"]))


def shared_memory(header, tensors, data):
    return result(fill(Path("/dev/shm"), header["most"]))


def temporary_files(header, tensors, data):
    return result(fill(Path("/tmp"), header["most"]))


def fill(folder, most):
    """Write files of a MiB until they are ``most`` bytes."""
    for number in range(most // 2**20):
        (folder / f"filler-{number}").write_bytes(bytes(2**20))
    return True


def one_large_file(header, tensors, data):
    with open("large", "wb") as file:
        file.truncate(header["most"])
    return result(True)


def many_files(header, tensors, data):
    for number in range(header["most"]):
        os.close(os.open(f"empty-{number}", os.O_CREAT))
    return result(True)


def descriptors(header, tensors, data):
    return result([os.open("/dev/null", os.O_RDONLY) for _ in range(header["most"])])


def raise_limits(header, tensors, data):
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return result(True)


# Rights


def become_root(header, tensors, data):
    os.setuid(0)
    return result(True)


def make_dumpable(header, tensors, data):
    return result(checked(LIBC.prctl(4, 1, 0, 0, 0)) == 0)


def outlive_parent(header, tensors, data):
    return result(checked(LIBC.prctl(1, 9, 0, 0, 0)) == 0)  # PR_SET_PDEATHSIG


def new_session(header, tensors, data):
    return result(os.setpgid(0, os.getppid()))


def foreign_abi(header, tensors, data):
    """getpid by the numbers of x32."""
    return result(LIBC.syscall(ctypes.c_long(0x40000000 + 39)) > 0 or ctypes.get_errno())


def old_abi(header, tensors, data):
    """getpid by the numbers of 32 bits: mov eax, 20; int 0x80; ret."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    place = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return result(ctypes.CFUNCTYPE(ctypes.c_int)(place)() > 0)


def system_call(header, tensors, data):
    return result(checked(LIBC.syscall(ctypes.c_long(header["number"]), *map(ctypes.c_long, header["arguments"]))) >= 0)


def checked(value):
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return value


# What a job inherits


def environment(header, tensors, data):
    return {"environment": dict(os.environ)}, {}


def inherited(header, tensors, data):
    return {"open": [number for number in range(1000) if is_open(number)]}, {}


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


# Replies


def giant_header(header, tensors, data):
    raw(SIZES.pack(2**32 - 1, 0))


def giant_body(header, tensors, data):
    raw(SIZES.pack(2, 2**63) + b"{}")


def endless(header, tensors, data):
    while True:
        os.write(REPLY, bytes(65536))


def junk(header, tensors, data):
    raw(b"\x80\x04\x95" * 1000)


def cut_short(header, tensors, data):
    os.write(REPLY, SIZES.pack(100, 0) + b"{")
    os._exit(0)


def reply_of(header, tensors, data):
    text, body = header["text"].encode(), bytes.fromhex(header.get("body", ""))
    raw(SIZES.pack(len(text), len(body)) + text + body)


def after_reply(header, tensors, data):
    text = b'{"outcome": "done", "header": {}}'
    raw((SIZES.pack(len(text), 0) + text) * 100)


def raw(data):
    """Write in place of an answer; then hang."""
    view = memoryview(data)
    while view:
        view = view[os.write(REPLY, view) :]
    time.sleep(600)


def wrong_tensors(header, tensors, data):
    import numpy

    changed = {
        "path": {"../../etc/passwd": tensors["a"], "b": tensors["b"]},
        "many": {f"t{number}": numpy.zeros(1, "f4") for number in range(200_000)},
        "shape": {**tensors, "a": tensors["a"].T},
        "missing": {"a": tensors["a"]},
        "nan": {**tensors, "a": tensors["a"] * numpy.nan},
        "infinite": {**tensors, "a": tensors["a"] + numpy.inf},
        "none": {},
        "large": {**tensors, "c": numpy.zeros(10**6, "f4")},
    }
    return {}, changed[header["which"]]


# Faults


def raise_fault(header, tensors, data):
    raise ValueError("bad\x1b[2J\nvalue" + "x" * 10_000)


def raise_unprintable(header, tensors, data):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    raise Odd


def leave(header, tensors, data):
    sys.exit(0)


def vanish(header, tensors, data):
    os._exit(0)


def crash(header, tensors, data):
    ctypes.string_at(0)


def close_and_hang(header, tensors, data):
    os.close(REPLY)
    time.sleep(600)


def hang(header, tensors, data):
    time.sleep(600)


def hang_stubbornly(header, tensors, data):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    while True:
        pass


def stop(header, tensors, data):
    os.kill(os.getpid(), signal.SIGSTOP)


# What could be there for the next job


def spoil_fedgrove(header, tensors, data):
    import json

    import numpy

    import fedgrove.node.base.tensors as module
    import fedgrove.node.tasks.sandbox.contain as contain
    import fedgrove.node.tasks.sandbox.script as script

    module.dump = script.run = contain.contain = json.loads = numpy.float32 = None
    os.environ["LEFT"] = "here"
    return result(False)


def leave_files(header, tensors, data):
    for folder in header["folders"]:
        Path(folder, "left").write_text("here")
        Path(folder, *["deep"] * 50).mkdir(parents=True)
        Path(folder, "deep").chmod(0)
    return result(False)


def find_files(header, tensors, data):
    import json

    left = [path for folder in header["folders"] for path in map(str, Path(folder).iterdir())]
    return {"left": [path for path in left if "filler" in path or "left" in path], "patched": json.loads is None}, {}


def leave_thread(header, tensors, data):
    atexit.register(time.sleep, 600)
    threading.Thread(target=time.sleep, args=(600,)).start()
    return result(False)

"""The filter of system calls: what it refuses, on which machine, and that nothing else refuses it."""

import ctypes
import errno
import os
import platform
import re
import signal
from pathlib import Path

import pytest

from fedgrove.node.tasks.sandbox import bpf, kernel
from fedgrove.node.tasks.sandbox.syscalls import ATTRIBUTES, CONDITIONAL, REFUSED, TRUNCATION

COLUMN = bpf.ARCHITECTURES[platform.machine()].column
# They act on the process whatever their arguments are, or say EPERM for reasons of their own.
UNTRIED = {"fork", "vfork", "vhangup", "setsid", "sync", "capset", "lookup_dcookie"}
HEADERS = {0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), 1: Path("/usr/include/asm-generic/unistd.h")}


def errors(filtered: bool, names: list[str], policy: bpf.Policy) -> dict[str, int]:
    """The error of each call, made in a process of its own with arguments that no call accepts."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if filtered:
                kernel.no_new_privileges()
                kernel.install(bpf.program(platform.machine(), os.getpid(), policy))
            os.write(writer, bytes(_error(libc, name) for name in names))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = os.read(reader, len(names))
    os.close(reader)
    os.close(writer)
    return dict(zip(names, found, strict=True))


def _error(libc: ctypes.CDLL, name: str) -> int:
    table = {**REFUSED, **ATTRIBUTES, **TRUNCATION, **CONDITIONAL}
    arguments = [ctypes.c_long(-1)] * 6
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(table[name][COLUMN]), *arguments) < 0 else 0


def tried(table: dict) -> list[str]:
    return sorted(name for name, numbers in table.items() if numbers[COLUMN] is not None and name not in UNTRIED)


def test_what_a_task_has_no_use_for_is_refused():
    found = errors(True, tried(REFUSED), bpf.Policy())
    assert {name for name, error in found.items() if error != errno.EPERM} == set()


def test_nothing_but_the_filter_refuses_it():
    if os.getuid() != 0:
        pytest.skip("to others than root, the kernel refuses most of these itself")
    found = errors(False, tried(REFUSED), bpf.Policy())
    assert {name for name, error in found.items() if error == errno.EPERM} == set()


def test_attributes_of_files_change_only_where_files_can_be_written():
    names = [*tried(ATTRIBUTES), *tried(TRUNCATION)]
    assert errno.EPERM not in errors(True, names, bpf.Policy()).values()
    assert set(errors(True, names, bpf.Policy(attributes=False, truncation=False)).values()) == {errno.EPERM}


def test_an_old_landlock_is_helped_out_with_opening_for_truncation(tmp_path):
    path = tmp_path / "kept"
    path.write_text("kept")
    for policy, left in ((bpf.Policy(), ""), (bpf.Policy(truncation=False), "kept")):
        path.write_text("kept")
        child = os.fork()
        if not child:
            try:
                kernel.no_new_privileges()
                kernel.install(bpf.program(platform.machine(), os.getpid(), policy))
                os.open(path, os.O_RDONLY)
                os.open(path, os.O_RDONLY | os.O_TRUNC)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert path.read_text() == left


def test_later_calls_do_not_exist():
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if not child:
        kernel.no_new_privileges()
        kernel.install(bpf.program(platform.machine(), os.getpid(), bpf.Policy()))
        os._exit(ctypes.get_errno() if libc.syscall(ctypes.c_long(470), 0) < 0 else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.ENOSYS


def test_a_filter_for_another_machine_kills():
    """As a call by a foreign ABI looks to the filter."""
    other = next(machine for machine in bpf.ARCHITECTURES if machine != platform.machine())
    child = os.fork()
    if not child:
        kernel.no_new_privileges()
        kernel.install(bpf.program(other, os.getpid(), bpf.Policy()))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSYS


@pytest.mark.parametrize("machine", bpf.ARCHITECTURES)
def test_programs_are_whole_and_every_jump_lands_inside(machine):
    code = bpf.program(machine, 1, bpf.Policy(attributes=False, truncation=False))
    instructions = [code[place : place + 8] for place in range(0, len(code), 8)]
    assert len(code) % 8 == 0 and len(instructions) < 4096
    for place, one in enumerate(instructions):
        if one[0] & 7 == 5:  # a jump
            assert place + 1 + max(one[2], one[3]) < len(instructions)
    assert instructions[-1][0] & 7 == 6  # a return


@pytest.mark.parametrize("column", HEADERS)
def test_numbers_are_the_kernels(column):
    if not HEADERS[column].exists():
        pytest.skip(f"no {HEADERS[column]}: install linux-libc-dev")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[column].read_text())
    kernels = {name: int(number) for name, number in found}
    ours = {**REFUSED, **ATTRIBUTES, **TRUNCATION, **CONDITIONAL}
    assert len(kernels) > 250
    assert {name for name, numbers in ours.items() if name in kernels and kernels[name] != numbers[column]} == set()
    assert {name for name, numbers in ours.items() if name not in kernels and (numbers[column] or 500) < 425} == set()

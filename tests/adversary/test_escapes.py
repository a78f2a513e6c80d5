"""A member's task whose code wants out: to keys, other data, the network, other processes, or the next round.

Who attacks: the author of a task that a member approved without reading it well. It wants the member's keystore and
journal, other data, a way to the network, or to spoil the member's own node for the rounds to come.

What stops it: namespaces (strict) or Landlock (contained), a filter of system calls, limits, a clean environment, and a
pipe whose bytes are checked. Each attempt fails, the next job runs as it should, and without the defence it succeeds.
"""

import os
import platform
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the sandbox is Linux's", allow_module_level=True)

from fedgrove.node.tasks.sandbox import bpf, bubblewrap
from fedgrove.node.tasks.sandbox.faults import JobFailed, JobRaised, JobTimedOut
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.settings import Mode
from fedgrove.node.tasks.sandbox.syscalls import CONDITIONAL, REFUSED
from fedgrove.node.tasks.sandbox.worker import Worker
from tests.node.tasks.sandbox.escape import LAYOUT, MIB, TIGHT, Place, escapes, is_fine, mutant, require, run

MODES = [Mode.STRICT, Mode.CONTAINED]


def names(text: str) -> list[str]:
    return text.split()


KEPT = names(
    "PATH LANG USER LOGNAME MALLOC_ARENA_MAX PYTHONHASHSEED PYTHONPATH HOME TMPDIR PWD TORCHINDUCTOR_CACHE_DIR"
)

FILES = names(
    "read_keystore list_home read_neighbour_of_data read_sibling_of_data read_shadow read_accounts follow_link "
    "follow_link_of_process link_hard write_outside write_task overwrite_task overwrite_data overwrite_fedgrove "
    "make_folder_at_root change_mode change_times change_attribute truncate remove write_core_pattern write_oom_score "
    "read_disk watch_home"
)
PROCESSES = names(
    "read_environments read_first_environment see_victim read_memory read_memory_of_parent trace trace_parent "
    "read_victim kill_victim kill_parent kill_group queue_signal signal_by_descriptor signal_by_process_descriptor "
    "limit_victim slow_victim lower_priority_of_victim fork fork_bomb start_program become_program spawn"
)
NETWORK = names("connect listen send_datagram connect_by_path connect_by_name ask_kernel pair")
RIGHTS = names("become_root make_dumpable outlive_parent new_session foreign_abi old_abi file_in_memory raise_limits")
# What they use up, by how much.
RESOURCES = {
    "memory": 600 * MIB,
    "mapped_memory": 600 * MIB,
    "disk": 10 * MIB,
    "shared_memory": 10 * MIB,
    "temporary_files": 10 * MIB,
    "one_large_file": 10 * MIB,
    "many_files": 70_000,
    "threads": 100,
    "descriptors": 100,
}
# Calls without which holes of the kernel are out of reach; their arguments do not matter to the filter.
CALLS = names(
    "mount umount2 pivot_root chroot unshare setns keyctl add_key request_key io_uring_setup io_uring_register "
    "userfaultfd bpf perf_event_open mknodat shmget shmat msgget semget mq_open kexec_load init_module finit_module "
    "delete_module open_by_handle_at memfd_secret process_vm_writev ptrace seccomp capset splice personality clone3 "
    "pidfd_getfd setns fsopen move_mount swapoff reboot sethostname clock_settime"
)


# These are written in the numbers, or the code, of one processor.
X86 = {"queue_signal", "foreign_abi", "old_abi"}


def possible(attempts: list[str]) -> list[str]:
    """The attempts that can be made on this machine."""
    return [name for name in attempts if platform.machine() == "x86_64" or name not in X86]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.close()


@pytest.fixture(scope="module", params=MODES)
def worker(request, place):
    require(request.param)
    with Worker(request.param, place.visible, TIGHT) as worker:
        yield worker


@pytest.mark.parametrize("name", possible([*FILES, *PROCESSES, *NETWORK, *RIGHTS]))
def test_an_attempt_fails_and_the_next_job_runs(worker, place, name):
    assert not escapes(worker, place.header(name))
    assert place.victim().poll() is None
    assert is_fine(worker, place)


@pytest.mark.parametrize("name", RESOURCES)
def test_a_job_gets_no_more_than_its_share(worker, place, name):
    assert not escapes(worker, {**place.header(name), "most": RESOURCES[name]})
    assert is_fine(worker, place)


@pytest.mark.parametrize("name", CALLS)
def test_the_kernel_is_out_of_reach(worker, place, name):
    column = bpf.ARCHITECTURES[platform.machine()].column
    number = {**REFUSED, **CONDITIONAL}[name][column]
    header = {**place.header("system_call"), "number": number, "arguments": [-1] * 6}
    with pytest.raises(JobRaised, match=r"Operation not permitted|Function not implemented"):
        run(worker, header)


def test_a_signal_to_everybody_stays_inside(place):
    require(Mode.STRICT)
    with Worker(Mode.STRICT, place.visible, TIGHT) as worker:
        assert not escapes(worker, place.header("kill_all"))
        assert is_fine(worker, place)


def test_the_first_to_be_killed_for_memory_are_jobs(place):
    for mode in (*MODES, Mode.OFF):
        require(mode)
        with Worker(mode, place.visible, TIGHT) as worker:
            worker.start()
            started = worker._attached.launched.process.pid
            inside = Path(f"/proc/{started}/task/{started}/children").read_text().split()
            assert bool(inside) == (mode is Mode.STRICT)
            for each in (started, *inside):
                assert Path(f"/proc/{each}/oom_score_adj").read_text().strip() == "1000"
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "1000"


def test_a_job_has_no_environment_and_no_descriptor_of_its_parent(place, monkeypatch):
    monkeypatch.setenv("FEDGROVE_PASSWORD", "of a test")
    keystore = os.open(place.folder / "home" / "keystore.json", os.O_RDONLY)
    os.set_inheritable(keystore, True)
    for mode in MODES:
        require(mode)
        with Worker(mode, place.visible, TIGHT) as worker:
            environment = run(worker, place.header("environment")).header["environment"]
            assert set(environment) <= set(KEPT)
            assert run(worker, place.header("inherited")).header["open"] == [0, 1, 2, 3, 4]
    os.close(keystore)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("giant_header", "too large"),
        ("giant_body", "too large"),
        ("endless", "neither|JSON"),
        ("junk", "too large"),
    ],
)
def test_floods_and_junk_are_refused(worker, place, name, said):
    with pytest.raises(JobFailed, match=said):
        run(worker, place.header(name))
    assert is_fine(worker, place)


def test_a_reply_that_is_cut_short_is_no_reply(worker, place):
    with pytest.raises(JobFailed):
        run(worker, place.header("cut_short"))
    assert is_fine(worker, place)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "null",
        '{"outcome": "done"}',
        '{"outcome": "done", "header": []}',
        '{"outcome": "done", "header": {"loss": NaN}}',
        '{"outcome": "done", "header": {"loss": 1e999}}',
        '{"outcome": "done", "header": {"loss": -Infinity}}',
        '{"outcome": "done", "header": {"count": ' + "9" * 5000 + "}}",
        '{"outcome": "done", "header": {"deep": ' + "[" * 100_000 + "]" * 100_000 + "}}",
        '{"outcome": "done", "header": {"deep": ' + "[" * 50 + "]" * 50 + "}}",
        '{"outcome": "done", "header": {"half',
    ],
    ids=lambda text: text[:45],
)
def test_headers_are_checked(worker, place, text):
    with pytest.raises(JobFailed):
        run(worker, {**place.header("reply_of"), "text": text})
    assert is_fine(worker, place)


def test_faults_that_a_task_words_itself_are_one_printable_line(worker, place):
    text = '{"outcome": "raised", "kind": "\\u001b[2J", "message": "a\\nb", "place": "' + "x" * 10_000 + '"}'
    with pytest.raises(JobRaised) as caught:
        run(worker, {**place.header("reply_of"), "text": text})
    assert str(caught.value).isprintable() and len(str(caught.value)) < 800


def test_tensors_that_were_not_asked_for_are_refused(worker, place):
    with pytest.raises(JobFailed, match=r"none were expected|too large"):
        run(worker, {**place.header("wrong_tensors"), "which": "missing"})


@pytest.mark.parametrize("which", ["path", "many", "shape", "missing", "nan", "infinite", "none", "large"])
def test_tensors_are_those_that_were_asked_for(worker, place, which):
    with pytest.raises(JobFailed):
        run(worker, {**place.header("wrong_tensors"), "which": which}, expected=LAYOUT)
    assert is_fine(worker, place)


def test_what_follows_a_reply_is_not_read(worker, place):
    assert run(worker, place.header("after_reply")).header == {}
    assert is_fine(worker, place)


@pytest.mark.parametrize("name", ["hang", "hang_stubbornly", "stop"])
def test_a_job_that_hangs_is_killed(worker, place, name):
    with pytest.raises(JobTimedOut, match="ran for more than 1 s"):
        run(worker, place.header(name), seconds=1)
    assert is_fine(worker, place)


@pytest.mark.parametrize(
    ("name", "fault", "said"),
    [
        ("raise_fault", JobRaised, r"ValueError: bad \[2J value.*\(escaping.py, line \d+\)"),
        ("raise_unprintable", JobFailed, "without an answer"),
        ("leave", JobRaised, "SystemExit"),
        ("vanish", JobFailed, "without an answer"),
        ("crash", JobFailed, "SIGSEGV"),
        ("close_and_hang", JobFailed, "closed its pipe"),
    ],
)
def test_a_job_that_fails_says_so_in_a_sentence(worker, place, name, fault, said):
    with pytest.raises(fault, match=said) as caught:
        run(worker, place.header(name))
    assert str(caught.value).isprintable()
    assert is_fine(worker, place)


def test_nothing_that_a_job_changed_is_there_for_the_next(worker, place):
    run(worker, place.header("spoil_fedgrove"))
    found = run(worker, {**place.header("find_files"), "folders": []}).header
    assert found == {"left": [], "patched": False}
    assert "LEFT" not in run(worker, place.header("environment")).header["environment"]
    assert is_fine(worker, place)


def test_no_file_is_left_for_the_next_job(place):
    require(Mode.STRICT)
    folders = {"folders": ["/tmp", "/dev/shm", "."]}
    with Worker(Mode.STRICT, place.visible, TIGHT) as worker:
        run(worker, {**place.header("leave_files"), **folders})
        assert run(worker, {**place.header("find_files"), **folders}).header["left"] == []


def test_no_thread_and_no_exit_handler_is_left(worker, place):
    assert not run(worker, place.header("leave_thread")).header["escaped"]
    assert is_fine(worker, place)


# Without its defence, an attempt succeeds.

OFF = names(
    "read_keystore list_home read_neighbour_of_data read_accounts follow_link write_outside write_task overwrite_task "
    "overwrite_data change_mode change_times truncate remove read_environments see_victim read_memory trace "
    "read_victim kill_victim queue_signal signal_by_descriptor signal_by_process_descriptor limit_victim slow_victim "
    "lower_priority_of_victim fork fork_bomb start_program spawn connect listen send_datagram connect_by_path "
    "connect_by_name ask_kernel pair file_in_memory outlive_parent make_dumpable old_abi foreign_abi watch_home"
)
NO_FILTER = "from fedgrove.node.tasks.sandbox import kernel; kernel.install = lambda program: None"
NO_LANDLOCK = "from fedgrove.node.tasks.sandbox import landlock; landlock.restrict = lambda *paths: None"
WITHOUT_FILTER = {
    Mode.STRICT: "fork fork_bomb start_program spawn listen ask_kernel pair file_in_memory outlive_parent old_abi",
    Mode.CONTAINED: "fork fork_bomb change_mode change_times limit_victim slow_victim lower_priority_of_victim "
    "send_datagram connect_by_path ask_kernel pair file_in_memory outlive_parent make_dumpable old_abi foreign_abi "
    "watch_home",
}
WITHOUT_LANDLOCK = names(
    "read_keystore list_home read_neighbour_of_data read_accounts write_outside overwrite_data see_victim remove "
    "overwrite_task write_task read_environments read_memory"
)


@pytest.fixture
def fresh(tmp_path):
    """A place of its own for attempts that succeed and so leave their marks."""
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.mark.mutants
@pytest.mark.parametrize("name", possible(OFF))
def test_without_a_sandbox_it_succeeds(fresh, name):
    with Worker(Mode.OFF, fresh.visible, TIGHT) as worker:
        assert escapes(worker, fresh.header(name))


@pytest.mark.mutants
@pytest.mark.parametrize("mode", MODES)
def test_without_the_filter_these_succeed(fresh, mode):
    require(mode)
    with mutant(NO_FILTER, mode, fresh) as worker:
        assert [name for name in possible(names(WITHOUT_FILTER[mode])) if not escapes(worker, fresh.header(name))] == []


@pytest.mark.mutants
def test_without_landlock_these_succeed(fresh):
    require(Mode.CONTAINED)
    with mutant(NO_LANDLOCK, Mode.CONTAINED, fresh) as worker:
        assert [name for name in WITHOUT_LANDLOCK if not escapes(worker, fresh.header(name))] == []


@pytest.mark.mutants
def test_without_namespace_of_the_network_and_filter_these_succeed(fresh, monkeypatch):
    require(Mode.STRICT)
    monkeypatch.setattr(bubblewrap, "_NAMESPACES", ("user", "pid", "ipc", "uts"))
    with mutant(NO_FILTER, Mode.STRICT, fresh) as worker:
        for name in ("connect", "send_datagram", "connect_by_name"):
            assert escapes(worker, fresh.header(name))


def test_as_root_with_a_writable_proc_the_core_pattern_is_open(fresh, monkeypatch):
    require(Mode.STRICT)
    if os.getuid() != 0:
        pytest.skip("it is root's alone to write")
    files = bubblewrap._files
    monkeypatch.setattr(bubblewrap, "_files", lambda visible: files(visible)[:-4])
    with mutant("from fedgrove.node.tasks.sandbox import kernel; kernel.drop_root = id", Mode.STRICT, fresh) as worker:
        assert escapes(worker, fresh.header("write_core_pattern"))


@pytest.mark.parametrize("name", [name for name in RESOURCES if name != "many_files"])
def test_with_larger_limits_a_job_gets_more(fresh, name):
    require(Mode.STRICT)
    loose = JobLimits(seconds=60, memory=2048 * MIB, scratch=64 * MIB, threads=1000, descriptors=500)
    with Worker(Mode.STRICT, fresh.visible, loose) as worker:
        assert escapes(worker, {**fresh.header(name), "most": RESOURCES[name]})


@pytest.mark.mutants
@pytest.mark.parametrize(
    ("mutation", "name", "found"),
    [
        (
            "contain._descriptors = lambda *ends: [os.dup2(ends[1], 40), os.dup2(ends[0], 3), os.dup2(40, 4)]",
            "inherited",
            6,
        ),
        ("os.environ['LEAK'] = 'x'", "environment", 10),
    ],
)
def test_without_cleaning_a_job_inherits(fresh, mutation, name, found):
    require(Mode.STRICT)
    code = f"import os; from fedgrove.node.tasks.sandbox import contain; {mutation}"
    with mutant(code, Mode.STRICT, fresh) as worker:
        (values,) = run(worker, fresh.header(name)).header.values()
        assert len(values) > found - 1


@pytest.mark.mutants
def test_without_scratch_of_its_own_a_job_leaves_files(fresh):
    folders = {"folders": [str(fresh.folder / "open")]}
    with Worker(Mode.OFF, fresh.visible, TIGHT) as worker:
        run(worker, {**fresh.header("leave_files"), **folders})
        assert run(worker, {**fresh.header("find_files"), **folders}).header["left"]

"""How much memory a process may use, as its machine and its control groups say."""

import pytest

from fedgrove.node.base import memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that makes a machine of 8 GiB with control groups, given the lines of a process and files."""
    monkeypatch.setattr(memory, "MACHINE", 8 * GIB)
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")

    def make(lines: str, files: dict[str, str]) -> int:
        for path, text in {
            "proc/self/cgroup": lines,
            **{f"groups/{name}": text for name, text in files.items()},
        }.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return memory.memory_limit()

    return make


@pytest.mark.parametrize(
    ("lines", "files", "gibibytes"),
    [
        ("0::/system.slice/fedgrove.service\n", {"system.slice/fedgrove.service/memory.max": f"{2 * GIB}\n"}, 2),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{3 * GIB}\n"}, 3),  # of a group around it
        ("0::/a/b\n", {"a/b/memory.max": f"{4 * GIB}\n", "a/memory.max": f"{3 * GIB}\n"}, 3),
        ("0::/\n", {"memory.max": f"{GIB}\n"}, 1),  # a container with a name space of its own
        ("0::/../../kubepods/pod7\n", {"memory.max": f"{GIB}\n"}, 1),
        ("5:cpu:/x\n4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": f"{2 * GIB}\n"}, 2),  # the first version
        ("4:hugetlb,memory:/docker/1\n", {"memory/memory.limit_in_bytes": f"{2 * GIB}\n"}, 2),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8),
        ("0::/a\n", {"a/memory.max": "max\n"}, 8),
        ("0::/a\n", {}, 8),
        ("0::/a\n", {"a/memory.max": f"{64 * GIB}\n"}, 8),
    ],
)
def test_the_least_limit_counts(machine, lines, files, gibibytes):
    assert machine(lines, files) == gibibytes * GIB


def test_without_control_groups_it_is_the_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    assert memory.memory_limit() == memory.MACHINE

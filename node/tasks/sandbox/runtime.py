"""The folders without which Python and its packages do not run, and the environment of a process that gets no other."""

import importlib.util
import os
import site
import sys
from collections.abc import Iterable
from pathlib import Path

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sys/devices/system/cpu")
_FILES = ("/etc/ld.so.cache", "/etc/localtime")
# What numeric libraries ask of the machine, where the whole of /proc cannot be shown.
MACHINE = tuple(map(Path, ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/dev/urandom", "/dev/zero")))
# An interpreter may lie outside its environment; an editable installation lies where its sources are.
_PACKAGES = ("fedgrove", "fedgrove.chain", "fedgrove.ipfs", "fedgrove.node")


def folders() -> list[Path]:
    """Paths to show to a process that runs this interpreter with its packages; none lies below another."""
    installed = [Path(sys.prefix), Path(sys.base_prefix), *_user_site()]
    specs = [importlib.util.find_spec(package) for package in _PACKAGES]  # found, not imported
    sources = [Path(place) for spec in specs if spec for place in spec.submodule_search_locations or ()]
    present = [Path(place) for place in (*_SYSTEM, *_FILES) if os.path.exists(place) and not os.path.islink(place)]
    return outermost([*present, *installed, *sources])


def links() -> list[tuple[str, str]]:
    """Links at the top of the file system, such as /lib64: where they lie and where they lead."""
    return [(place, os.readlink(place)) for place in _SYSTEM if os.path.islink(place)]


def environment(home: Path) -> dict[str, str]:
    """The whole environment of a process that runs a task's code."""
    shared = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "USER": "member", "LOGNAME": "member"}
    # Each further arena of the allocator reserves 64 MiB of address space, which is limited.
    tuned = {"MALLOC_ARENA_MAX": "2", "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(map(str, _user_site()))}
    # torch's compiler, which is imported with some packages, makes this folder: one that is there already.
    tuned["TORCHINDUCTOR_CACHE_DIR"] = "/tmp"
    return {**shared, **tuned, "HOME": str(home), "TMPDIR": str(home)}


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that lie below no other, sorted."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def _user_site() -> list[Path]:
    folder = Path(site.getusersitepackages())
    return [folder] if site.ENABLE_USER_SITE and folder.is_dir() else []

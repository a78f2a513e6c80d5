"""Where in somebody's own code an exception came from."""

import traceback
from pathlib import Path
from types import FrameType

_PRODUCT = "fedgrove."


def place_of_fault(fault: BaseException, path: Path) -> str:
    """The last line in a folder, or in that of a file, that an exception came from, as ``task.py, line 7``.

    Without one, the function that raised it, such as one of torch's, and fedgrove's function that called it; empty
    where fedgrove itself raised it, as its message then says enough.
    """
    folder = path if path.is_dir() else path.parent
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(fault.__traceback__)]
    if isinstance(fault, SyntaxError):
        frames.append((fault.filename or "", fault.lineno or 0))
    own = [(name, line) for name, line in frames if Path(name).is_relative_to(folder)]
    return f"{Path(own[-1][0]).relative_to(folder)}, line {own[-1][1]}" if own else _outside(fault)


def place_in_code(fault: BaseException) -> str:
    """Kind of an error, and the line that raised it, without its text."""
    frames = traceback.extract_tb(fault.__traceback__)
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno} ({frames[-1].name})" if frames else ""
    return f"{type(fault).__name__}{where}"


def _outside(fault: BaseException) -> str:
    frames = [frame for frame, _ in traceback.walk_tb(fault.__traceback__)]
    ours = [frame for frame in frames if _module_of(frame).startswith(_PRODUCT)]
    if not ours or ours[-1] is frames[-1]:
        return ""
    raised = f"{_module_of(frames[-1])}.{frames[-1].f_code.co_qualname}"
    return f"in {raised}, called by {ours[-1].f_code.co_qualname}"


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))

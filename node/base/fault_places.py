"""Where in somebody's own code an exception came from."""

import traceback
from pathlib import Path


def place_of_fault(fault: BaseException, path: Path) -> str:
    """File and line in a folder, or in that of a file, as ``task.py, line 7``; empty where the fault is elsewhere."""
    folder = path if path.is_dir() else path.parent
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(fault.__traceback__)]
    if isinstance(fault, SyntaxError):
        frames.append((fault.filename or "", fault.lineno))
    own = [(name, line) for name, line in frames if Path(name).is_relative_to(folder)]
    return f"{Path(own[-1][0]).relative_to(folder)}, line {own[-1][1]}" if own else ""

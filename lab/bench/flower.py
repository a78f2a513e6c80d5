"""Flower, the rival of masking and of the simulation engine: scripts that run in an environment of its own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from fedgrove.common.errors import RunFailed

FLOWER_VARIABLE = "FEDGROVE_FLOWER_PYTHON"
"""Names the interpreter of an environment that has Flower."""

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def ask_flower(script: str, asked: dict[str, Any], seconds: float, folder: Path | None = None) -> dict[str, Any] | None:
    """Have Flower do the same work.

    Parameters
    ----------
    script : str
        A file in the repository's ``scripts``.
    asked : dict
        The work, as the script reads it from stdin.
    seconds : float
        How long it may take.
    folder : Path, optional
        Where it runs.

    Returns
    -------
    dict or None
        The script's figures; None where no interpreter is named.

    Raises
    ------
    RunFailed
    """
    python = os.environ.get(FLOWER_VARIABLE)
    if not python:
        return None
    try:
        done = subprocess.run(
            [python, str(_SCRIPTS / script)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=folder,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as failure:
        lines = failure.stderr.strip().splitlines() or ["no message"]
        raise RunFailed(lines[-1]) from None
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as failure:
        raise RunFailed(str(failure)) from None

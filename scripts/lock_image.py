"""Write the packages of the image with their hashes: ``python scripts/lock_image.py`` on Linux, x86-64, Python 3.11.

pip resolves the extras of ``EXTRAS`` under ``constraints.txt`` and reports what it would install. torch is left out:
which build is right depends on the machine (``deploy/Dockerfile``).
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET, BUILD = ROOT / "deploy" / "requirements.txt", ROOT / "deploy" / "build-requirements.txt"
EXTRAS = "learning,kmeans,tables"
NOT_LOCKED = ("fedgrove", "torch", "setuptools")
HEADER = "# By scripts/lock_image.py: what deploy/Dockerfile installs, on Linux on x86-64 with Python 3.11.\n"


def resolved(*wanted: str) -> dict[str, str]:
    """Lines of requirements by package, for all that these would install."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run(
        [*command, "--constraint", str(ROOT / "constraints.txt"), *wanted], check=True, stdout=subprocess.PIPE, cwd=ROOT
    )
    return dict(sorted(line(package) for package in json.loads(done.stdout)["install"]))


def line(package: dict) -> tuple[str, str]:
    """A package's name, and its line with version and hash."""
    name, version = package["metadata"]["name"].lower().replace("_", "-"), package["metadata"]["version"]
    sha = package["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
    return name, f"{name}=={version} --hash=sha256:{sha}\n"


def main() -> None:
    """Write both files."""
    packages = resolved(f".[{EXTRAS}]")
    TARGET.write_text(HEADER + "".join(text for name, text in packages.items() if name not in NOT_LOCKED))
    BUILD.write_text(HEADER + "".join(resolved("setuptools==80.9.0").values()))


if __name__ == "__main__":
    main()

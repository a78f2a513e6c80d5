"""Settings of all tests: hypothesis never judges by the clock, and in CI it tries the same examples every time."""

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

"""Headless Chromium, which draws pages for tests and pictures."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), "")
"""The path of Chromium, or "" if it is not installed."""
NO_BROWSER = "no Chromium here (apt-get install chromium)"


def browse(page: Path, profile: Path, *options: str) -> str:
    """Open `page` with `options` and a profile in the folder `profile`; return Chromium's output."""
    words = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", *options, page.resolve().as_uri()]
    return subprocess.run(words, check=True, capture_output=True, timeout=300, text=True).stdout

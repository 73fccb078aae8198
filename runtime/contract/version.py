"""Which version of the package this is. Both ends of a run compare it, so both ask here."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

VERSION_VARIABLE = "TIANJI_VERSION"  #: of the program that was copied here without being installed


def installed_version() -> str:
    """Of the installed package, else what `TIANJI_VERSION` says, else `unknown`."""
    try:
        return version("tianjictl")
    except PackageNotFoundError:
        return os.environ.get(VERSION_VARIABLE) or "unknown"

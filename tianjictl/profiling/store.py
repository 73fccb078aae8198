"""Profiles on disk: one file for each fingerprint, so that a changed machine or job never finds old rates."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from runtime.contract.files import write_whole
from runtime.contract.measurement import LinkRate
from runtime.contract.paths import state_home
from tianjictl.errors import UsageProblem
from tianjictl.profiling.profile import ClusterProfile
from tianjictl.state_folder import open_folder

_LINKS = TypeAdapter(tuple[LinkRate, ...])


def open_store() -> Path:
    """The folder of all profiles, made if need be; UsageProblem where nothing can be written in it.

    Asked before anything is measured, so that nobody waits for what cannot be kept.
    """
    return open_folder(state_home() / "profiles", "profiles")


def cached_path(key: str) -> Path:
    """Where the profile with this key lies, or would lie."""
    return state_home() / "profiles" / f"{key}.json"


def cached(key: str) -> ClusterProfile | None:
    """The cached profile with this key; a damaged or outdated file counts as none."""
    try:
        profile = ClusterProfile.model_validate_json(cached_path(key).read_bytes())
    except (OSError, ValidationError):
        return None
    return profile if profile.key == key else None


def keep(profile: ClusterProfile) -> Path:
    """Write a profile to the cache."""
    path = cached_path(profile.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(profile, path)
    return path


def cached_links(key: str) -> tuple[LinkRate, ...] | None:
    """Both directions of a link that was measured before; a damaged or outdated file counts as none."""
    try:
        return _LINKS.validate_json((state_home() / "links" / f"{key}.json").read_bytes())
    except (OSError, ValidationError):
        return None


def keep_links(key: str, links: tuple[LinkRate, ...]) -> None:
    """Write both directions of a link to the cache."""
    path = state_home() / "links" / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _LINKS.dump_json(links, indent=1).decode() + "\n")


def save(profile: ClusterProfile, path: Path) -> None:
    """Write a profile to a file; UsageProblem where that cannot be done."""
    try:
        write_whole(path, profile.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise UsageProblem(f"cannot write the profile to {path}: {error.strerror or error}") from error


def load(path: Path) -> ClusterProfile:
    """Read a profile that a person named; UsageProblem says what is wrong with it."""
    try:
        return ClusterProfile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageProblem(f"cannot read the profile {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise UsageProblem(
            f"{path} is not a profile: {where}: {first['msg']}", hint="tianjictl profile JOB -o FILE writes one"
        ) from error

"""What the guardian of an orphaned node leaves for the coordinator (`orphaned.json`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.model import View

if TYPE_CHECKING:
    from pathlib import Path


class OrphanRecord(View):
    """The step whose shards are whole, none if there is none; and why."""

    step: int | None = None
    reason: str = ""


def read_orphan_record(path: Path) -> OrphanRecord | None:
    """None until it is there."""
    try:
        return OrphanRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        return OrphanRecord(reason=f"{path.name} is unreadable: {error}")

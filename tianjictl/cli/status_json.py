"""A run's picture as `status --json`, `status --watch --json` and `launch --json` give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tianjictl.runs.client import Picture

NEWEST_EVENTS = 20


def stale_warning(picture: Picture) -> list[str]:
    """The warning that belongs to old numbers."""
    if not picture.stale:
        return []
    return [f"these numbers are {picture.age_s:.0f} s old: {picture.problem or 'the coordinator does not answer'}"]


def status_data(picture: Picture) -> dict[str, Any]:
    """`data` of `status --json`: the view, with the keys that scripts rely on."""
    view = picture.view.model_dump(mode="json")
    view["links"] = [{"from": link.pop("source"), "to": link.pop("target"), **link} for link in view["links"]]
    view["events"] = view["events"][-NEWEST_EVENTS:]
    older = 0.0 if picture.live else picture.age_s
    for aged in (*view["components"], *view["hosts"]):
        if aged["heartbeat_age_s"] is not None:
            aged["heartbeat_age_s"] += older
    if view["checkpoints"]["last_age_s"] is not None:
        view["checkpoints"]["last_age_s"] += older
    return {**view, "stale": picture.stale, "age_s": picture.age_s}

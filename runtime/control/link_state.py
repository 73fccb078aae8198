"""What one end of a link knows of it: which join it is about, and how far that has come. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.contract.messages import LinkReport

if TYPE_CHECKING:
    from runtime.courier.orders import CourierView

_COUNTED = ("sent", "sent_raw", "received", "received_raw", "sent_per_s", "received_per_s")


class LinkState:
    """Holds the report. A word about another join than the newest changes nothing."""

    def __init__(self, peer: str) -> None:
        self.report = LinkReport(peer=peer, state="starting")
        self.has_courier = False

    def started(self, error: str | None) -> None:
        """The courier has, or has not, taken its first order."""
        self.has_courier = error is None
        self._now(state="ready" if self.has_courier else "starting", reason=error or "", port=None)

    def gone(self, reason: str) -> None:
        """The courier has ended; the next one has to be joined anew."""
        self.has_courier = False
        self._now(state="starting", reason=reason, port=None)

    def reset(self, serial: int) -> None:
        """The courier is replaced, whatever it was about."""
        self.has_courier = False
        self._now(serial=serial, state="starting", reason="it begins anew, as its peer has", port=None)

    def opened(self, serial: int, port: str | None, error: str | None) -> None:
        """The port for that try is there, or not. Until then the word about the try before stands."""
        self._now(serial=serial, state="lost" if error else "open", port=None if error else port, reason=error or "")

    def joining(self, serial: int) -> None:
        """Both ends are told to join; without a courier that is lost already."""
        self._now(serial=serial, state="joining" if self.has_courier else "lost")
        if not self.has_courier:
            self._now(reason="its courier is not there yet")

    def joined(self, serial: int, error: str | None) -> None:
        """The courier is back from a join; whether the peer has the run's key shows next."""
        if serial == self.report.serial and error:
            self._now(state="lost", reason=error)

    def lost(self, reason: str) -> None:
        """The link broke, or was given up."""
        self._now(state="lost", reason=reason)

    def seen(self, serial: int, view: CourierView) -> None:
        """What the courier says of itself and its link."""
        self._now(transport=view.transport, why=view.why)
        link = next((link for link in view.links if link.peer == self.report.peer), None)
        if link is None or serial != self.report.serial or self.report.state not in ("joining", "up"):
            return
        if not link.up:
            if self.report.state == "up" or link.reason:
                self._now(state="lost", reason=link.reason)
            return
        came = self.report.state != "up"
        self._now(state="up", reason="", joins=self.report.joins + came, **{n: getattr(link, n) for n in _COUNTED})

    def _now(self, **changes: Any) -> None:
        self.report = self.report.model_copy(update=changes)

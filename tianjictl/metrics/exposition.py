"""Pictures of runs as the text that Prometheus reads. The one door through which prometheus_client comes in.

A run that nobody answers for says so (`tianji_up` 0) and nothing else: no old number passes for a new one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from tianjictl.metrics.catalogue import LASTING, LIVE
from tianjictl.metrics.families import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runtime.contract.view import Freshness
    from tianjictl.metrics.families import Family
    from tianjictl.metrics.pictures import Shown

#: Upper bounds of the lag histogram. The view's bins are exact up to 31; a wider one counts by its smallest lag.
LAG_BOUNDS = (*range(9), 12, 16, 24, *(2**power for power in range(5, 21)))
_LAG = "tianji_version_lag"


class Pictures:
    """A collector, in the library's sense, of what is known of some runs."""

    def __init__(self, shown: Sequence[Shown]) -> None:
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        """All families, each once, with the samples of all runs."""
        yield from self._always()
        known = [each.picture for each in self._shown if each.picture is not None]
        lasting = [picture.view for picture in known if not picture.stale]
        live = [picture.view for picture in known if picture.live]
        for metrics, views in ((LASTING, lasting), (LIVE, live)):
            for metric in metrics:
                if made := _family([metric.of(view) for view in views]):
                    yield made
        lags = GaugeHistogramMetricFamily(
            _LAG, "Version lags of the samples that were trained on, over 10 s.", labels=["run"]
        )
        for view in live:
            buckets, total = lag_buckets(view.freshness)
            lags.add_metric([view.run_id], buckets, total)
        if live:
            yield lags

    def _always(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("tianji_exporter_runs", "Runs that this exporter knows of and shows.")
        count.add_metric([], len(self._shown))
        up = GaugeMetricFamily("tianji_up", "1 if the run's coordinator has answered.", labels=["run"])
        ended = GaugeMetricFamily("tianji_run_ended", "1 if nothing of the run will change any more.", labels=["run"])
        age = GaugeMetricFamily("tianji_view_age_seconds", "Age of what is known of the run.", labels=["run"])
        info = InfoMetricFamily("tianji_run", "What the run is.", labels=["run"])
        for each in self._shown:
            picture = each.picture
            up.add_metric([each.run_id], float(picture is not None and picture.live))
            ended.add_metric([each.run_id], float(picture is not None and picture.ended))
            info.add_metric([each.run_id], {"name": each.name, "user": each.user, "head": each.head})
            if picture is not None:
                age.add_metric([each.run_id], picture.age_s)
        yield from (count, up, ended, age, info)


def _family(parts: Iterable[Family]) -> Metric | None:
    """One family of the samples of all runs; none where there are no samples."""
    made: CounterMetricFamily | GaugeMetricFamily | None = None
    for part in parts:
        for labels, value in part.values:
            if made is None:
                kind = CounterMetricFamily if part.kind is Kind.COUNTER else GaugeMetricFamily
                made = kind(part.name, part.help, labels=list(labels))
            made.add_metric(list(labels.values()), value)
    return made


def lag_buckets(freshness: Freshness) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts by upper bound, and the sum of the lags (the mean times the count)."""
    counts = [0] * (len(LAG_BOUNDS) + 1)
    for smallest, count in freshness.lag_bins:
        at = bisect_right(LAG_BOUNDS, smallest - 1)  # the first bound that is not below it
        counts[at] += count
    buckets: list[tuple[str, float]] = []
    so_far = 0
    for bound, count in zip((*map(float, LAG_BOUNDS), float("inf")), counts, strict=True):
        so_far += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), so_far))
    return buckets, freshness.version_lag.mean * so_far


def exposition(shown: Sequence[Shown], accept: str = "") -> tuple[bytes, str]:
    """The text and its content type, in the newest format that `accept` (the HTTP header) takes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Pictures(shown))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def samples(shown: Sequence[Shown]) -> list[dict[str, object]]:
    """The same as plain values: name, labels and value of every sample."""
    return [
        {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
        for family in Pictures(shown).collect()
        for sample in family.samples
    ]

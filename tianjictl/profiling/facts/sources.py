"""Where a fact comes from, so that a person can look for themselves."""

from runtime.contract.model import Document


class Source(Document):
    """One place that limits something, and what it says."""

    name: str
    says: str

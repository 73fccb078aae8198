"""Proofs of the learning code on one host: what `python -m runtime selfcheck` is asked, and what it answers (JSON)."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from runtime.contract.algorithm import AlgorithmConfig, PpoConfig
from runtime.contract.envspec import EnvSpec
from runtime.contract.job import EnvConfig
from runtime.contract.model import Document


class SelfcheckRequest(Document):
    """What to prove. Without an environment only the code itself is looked at."""

    env: EnvConfig | None = None
    spec: EnvSpec | None = None  #: how the environment was found where the job was planned; compared with what is here
    algorithm: AlgorithmConfig = PpoConfig(name="ppo")
    seed: int = Field(default=0, ge=0, lt=2**63)
    threads: PositiveInt = 1  #: BLAS threads that a component would ask for
    look_s: PositiveFloat = 0.25  #: for how long each check may play the environment, once it is made
    full: bool = False  #: also what takes seconds: torch is imported and compared with


class SelfcheckFinding(Document):
    """One proof. All words are for people."""

    check: str  #: `gae`, `n-step`, `v-trace`, `autoreset`, …: stable names
    ok: bool | None  #: none: there was nothing to see within the time allowed, as `evidence` says
    evidence: str  #: what was done and found
    expected: str = ""
    seen: str = ""
    took_s: NonNegativeFloat


class SelfcheckReport(Document):
    """All proofs, in the order in which they were made."""

    findings: tuple[SelfcheckFinding, ...]
    took_s: NonNegativeFloat  #: imports not counted

    @property
    def failed(self) -> tuple[SelfcheckFinding, ...]:
        return tuple(finding for finding in self.findings if finding.ok is False)

"""Whether hosts reach each other's ports: what `python -m runtime reach FILE` is asked, and what it answers (JSON).

One host listens for as many others as are expected, the others connect. The request lies in a file, as it holds a key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, TypeAdapter

from runtime.contract.model import Document


class Way(Document):
    """How a run would listen and connect on a host."""

    network: str | None = None  #: CIDR; the loopback where none
    ports: tuple[int, int] | None = None  #: first and last; any where none
    mpi: bool = False  #: by two couriers' MPI instead of plain TCP
    mpi_abi: str | None = None


class Listen(Way):
    """Listen until `expected` others have proved that they have the key, at most for `within_s`; answered at once."""

    do: Literal["listen"] = "listen"
    key: str = Field(pattern="^[0-9a-f]{32,}$")
    expected: PositiveInt = 1
    within_s: PositiveFloat = 15.0


class Target(Document):
    """A host that listens, and where: `10.0.0.1:5000`, or what MPI calls its port."""

    name: str
    address: str


class Connect(Way):
    """Try every target, one after the other, each for `within_s`."""

    do: Literal["connect"] = "connect"
    key: str = Field(pattern="^[0-9a-f]{32,}$")
    targets: tuple[Target, ...]
    within_s: PositiveFloat = 2.0


class Listening(Document):
    """The answer to `Listen`; `error` where nothing can listen."""

    address: str = ""
    error: str = ""


class Reached(Document):
    """One target; `took_s` is none where it did not come through, and `problem` says why."""

    name: str
    took_s: float | None = None
    problem: str = ""
    transport: str = ""  #: of MPI: the provider that it has chosen


class Connected(Document):
    """The answer to `Connect`."""

    reached: tuple[Reached, ...]


REQUEST: TypeAdapter[Listen | Connect] = TypeAdapter(Annotated[Listen | Connect, Field(discriminator="do")])

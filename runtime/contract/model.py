"""The two bases of every document that crosses a boundary: both refuse unknown keys and are immutable."""

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A frozen value that refuses unknown keys; base of jobs, plans and messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")


class View(BaseModel):
    """A frozen value that ignores unknown keys, so that an older reader can show a newer run; base of RunView."""

    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="null")

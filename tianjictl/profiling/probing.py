"""Runs the node's own short programs on this machine: one asks an environment for its shapes, one measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from pydantic import ValidationError

from runtime.contract.envspec import EnvSpec
from runtime.contract.measurement import MeasureProgress, MeasureReport
from tianjictl.errors import TianjiError, TimedOut, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.contract.job import EnvConfig
    from runtime.contract.measurement import MeasureRequest
    from runtime.contract.model import Document

_PROBE_TIMEOUT_S = 60.0
_SILENT_S = 1.0  #: longer than this nobody should wait without a word
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class EnvProbe:
    """Asks an environment for its shapes in a process of its own, begun at once so that other work can overlap.

    Use as a context manager: the process never outlives the block.
    """

    def __init__(self, config: EnvConfig) -> None:
        self._config = config
        self._process = _start("probe-env", config)

    def __enter__(self) -> EnvProbe:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def spec(self, progress: Callable[[str], None] = lambda _line: None) -> EnvSpec:
        """Wait for the answer; UsageProblem where the environment cannot be used. A long wait is announced."""
        try:
            out, err = self._process.communicate(timeout=_SILENT_S)
        except subprocess.TimeoutExpired:
            progress(f"waiting for environment {self._config.id} to take its first steps")
            out, err = self._wait()
        if self._process.returncode == 0:
            try:
                return EnvSpec.model_validate_json(last_line(out))
            except ValidationError as error:
                raise TianjiError(f"the probe of {self._config.id} gave no description: {error}") from error
        raise _failure(out, err, f"asking environment {self._config.id} for its shapes")

    def _wait(self) -> tuple[str, str]:
        try:
            return self._process.communicate(timeout=_PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(
                f"environment {self._config.id} was not made within {_PROBE_TIMEOUT_S:.0f} s",
                hint="does its constructor wait for something, such as a display or a download?",
            ) from error


def measure(request: MeasureRequest, progress: Callable[[MeasureProgress], None]) -> MeasureReport:
    """Measure this machine; takes seconds and tells of each step. UsageProblem where the job cannot run here."""
    process = _start("measure", request)
    assert process.stdout is not None and process.stderr is not None
    other: list[str] = []
    try:
        for line in process.stderr:
            try:
                progress(MeasureProgress.model_validate_json(line))
            except ValidationError:
                other.append(line)
        out = process.stdout.read()
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
    if code == 0:
        return MeasureReport.model_validate_json(last_line(out))
    raise _failure(out, "".join(other), "measuring this machine")


def _start(program: str, question: Document) -> subprocess.Popen[str]:
    """A program of the node's side, asked in JSON; it answers on its standard output."""
    return subprocess.Popen(
        [sys.executable, "-m", "runtime", program, question.model_dump_json()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | _ONE_THREAD,
    )


def _failure(out: str, err: str, doing: str) -> TianjiError:
    """What a node's program reported itself is about the job; anything else is its crash, with its last words."""
    try:
        answer = json.loads(last_line(out))
        return UsageProblem(str(answer["error"]), hint=answer.get("hint"))
    except (ValueError, KeyError, TypeError):
        return TianjiError(f"{doing} failed: {last_line(err) or 'it ended without a word'}")


def last_line(text: str) -> str:
    """Environments print banners: what counts comes last."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""

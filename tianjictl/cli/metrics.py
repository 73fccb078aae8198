"""`tianjictl metrics`: runs as metrics for Prometheus, once or over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tianjictl.cli import completion as complete
from tianjictl.cli.options import Json

if TYPE_CHECKING:
    from tianjictl.metrics.pictures import Observer

_WITHIN_S = 15.0  #: a person can wait longer than a scrape


def metrics(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="One run; all that go on or have just ended if left out.",
            autocompletion=complete.runs,
        ),
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Answer a Prometheus server, until Ctrl-C.")] = False,
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="Where to listen with --serve.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 takes any free one.")] = 9464,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Answer only who sends this bearer token; mode 0600."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a file, as node_exporter's textfile collector reads."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Print the runs' numbers in the format of Prometheus, or serve them over HTTP.

    The training does nothing for it but answer the same question as for `status`. A run that nobody answers for has
    tianji_up 0, and no numbers.
    """
    from tianjictl.errors import UsageProblem
    from tianjictl.metrics.pictures import Observer

    if serve and output is not None:
        raise UsageProblem("--serve and --output do not go together: one answers, the other writes a file once")
    if run is not None:
        from tianjictl.runs.registry import find_run

        find_run(run)
    observer = Observer(run)
    try:
        if serve:
            return _serve(observer, address, port, token_file, json=json)
        return _once(observer, output, json=json)
    finally:
        observer.close()


def _once(observer: Observer, output: Path | None, *, json: bool) -> int:
    from tianjictl.metrics.exposition import exposition, samples

    shown = observer.look(_WITHIN_S)
    content, _ = exposition(shown)
    if output is not None:
        _write(output, content)
    if json:
        from tianjictl.cli.output import emit_json

        emit_json("metrics", {"runs": [each.run_id for each in shown], "samples": samples(shown)})
    elif output is None:
        sys.stdout.write(content.decode())
    return 0


def _write(path: Path, content: bytes) -> None:
    from runtime.contract.files import write_whole
    from tianjictl.errors import UsageProblem

    try:
        write_whole(path, content)
        path.chmod(0o644)  # the collector is another user
    except OSError as error:
        hint = "give a file in a folder that exists and may be written to"
        raise UsageProblem(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error


def _serve(observer: Observer, address: str, port: int, token_file: Path | None, *, json: bool) -> int:
    from tianjictl.cli.output import emit_json, note
    from tianjictl.errors import Interrupted
    from tianjictl.metrics.serving import MetricsServer, read_token

    token = None if token_file is None else read_token(token_file)
    with MetricsServer(observer, address, port, token) as server:
        try:
            if json:
                emit_json("metrics", {"url": server.url})
            note(f"metrics at {server.url}; Ctrl-C or SIGTERM ends this, and no run")
            server.serve_forever()
        except Interrupted:  # by SIGTERM: it was asked to end, as a service manager does, and that is no failure
            note("ended, as asked")
    return 0

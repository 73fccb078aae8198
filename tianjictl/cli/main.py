"""The command `tianjictl`: finds the subcommand, loads only that one's code, and turns errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tianjictl.errors import TianjiError


class Entry(NamedTuple):
    """Where a command's function lives, and its line in the overview."""

    module: str
    function: str
    help: str


COMMANDS: dict[str, Entry] = {
    "inventory": Entry("inventory", "inventory", "Show the hosts of an inventory and where their settings come from."),
    "doctor": Entry("doctor", "doctor", "Check every host before a run; each finding with what mends it."),
    "profile": Entry("profile", "profile", "Measure this machine: cores, memory, environment and learner speed."),
    "plan": Entry("plan", "plan", "Solve what runs where and how fast it should be; touches nothing."),
    "launch": Entry("launch", "launch", "Start a training and attach to it."),
    "attach": Entry("attach", "attach", "Follow a running training; Ctrl-C twice stops it, d detaches."),
    "status": Entry("status", "status", "One screen on a run; --watch keeps it live."),
    "top": Entry("top", "top", "The terminal UI of a run: watch it, scale it, stop it."),
    "logs": Entry("logs", "logs", "What the components of a run wrote, across attempts."),
    "events": Entry("events", "events", "What happened to a run, and why."),
    "runs": Entry("runs", "runs", "History of runs."),
    "scale": Entry("scale", "scale", "Grow or shrink a running training, or give it other hosts."),
    "checkpoint": Entry("checkpoints", "checkpoint", "Write a checkpoint now."),
    "checkpoints": Entry("checkpoints", "checkpoints", "List, verify or prune checkpoints."),
    "resume": Entry("resume", "resume", "Continue a run from a checkpoint, on the same or another shape."),
    "stop": Entry("stop", "stop", "Stop a run: checkpoint, drain, exit; verifies that nothing is left."),
    "playbook": Entry("playbook", "playbook", "Prepare, tune or clean up hosts by an Ansible playbook."),
    "metrics": Entry("metrics", "metrics", "Print runs as metrics for Prometheus, or serve them to it."),
    "eval": Entry("eval", "evaluate", "Play a saved policy and report its returns."),
}

EPILOG = "RUN is a run id, a unique beginning of one, or a job's name; left out it is the newest run."


class LazyGroup(TyperGroup):
    """Knows every command by name, and imports a command's module only when that command is run."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if cmd_name not in self.commands:
            self.add_command(_load(cmd_name, entry), cmd_name)
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


def _load(name: str, entry: Entry) -> Any:
    module = import_module(f"tianjictl.cli.{entry.module}")
    single = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False
    )
    function = getattr(module, entry.function)
    single.command(name, cls=getattr(module, "COMMAND_CLASS", None), epilog=getattr(module, "EPILOG", None))(function)
    command = typer.main.get_command(single)
    for parameter in command.params:
        if parameter.param_type_name == "argument":  # its name says what it is: no Python type beside it
            cast("Any", parameter).display_type_rich = lambda ctx: None  # noqa: ARG005 - as typer calls it
    return command


app = typer.Typer(
    cls=LazyGroup,
    name="tianjictl",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    no_args_is_help=False,
    invoke_without_command=True,
    epilog=EPILOG,
)


def installed_version() -> str:
    """The installed version, or `unknown` when run from a bare checkout."""
    try:
        return version("tianjictl")
    except PackageNotFoundError:
        return "unknown"


@app.callback()
def _root(
    context: typer.Context,
    show_version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    _debug: bool = typer.Option(False, "--debug", help="Show tracebacks; may stand anywhere in the line."),
) -> int:
    """Plan, launch, watch and recover parallel deep reinforcement learning."""
    if show_version:
        sys.stdout.write(f"tianjictl {installed_version()}\n")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; every error is translated here, once."""
    if argv is None and "_TIANJICTL_COMPLETE" in os.environ:
        from tianjictl.cli.completion import answer_shell

        answer_shell(typer.main.get_command(app))
    _have_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    options = words[: words.index("--")] if "--" in words else words
    debug = "--debug" in options or bool(os.environ.get("TIANJICTL_DEBUG"))
    words = [word for index, word in enumerate(words) if word != "--debug" or index >= len(options)]
    _never_choke_on_a_character()
    before = _heed_sigterm()
    try:
        return _run(words, as_json="--json" in options, debug=debug)
    except BrokenPipeError:
        _forget_broken_pipe()
        return 0
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _heed_sigterm() -> Any:
    """SIGTERM ends a command as Ctrl-C does: in order, and with the terminal as it was. Returns the handler before."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(_number: int, _frame: object) -> None:
    from tianjictl.errors import Interrupted

    raise Interrupted("terminated by SIGTERM")


def _run(words: list[str], *, as_json: bool, debug: bool) -> int:
    from tianjictl.errors import Interrupted, TianjiError, UsageProblem

    try:
        code = typer.main.get_command(app).main(words, prog_name="tianjictl", standalone_mode=False)
        sys.stdout.flush()
        if code == Interrupted.exit_code:  # what typer makes of Ctrl-C, without a word
            raise Interrupted("interrupted")
        return code if isinstance(code, int) else 0
    except SystemExit as leaving:
        # The only way here is a reader that has gone: typer has swapped the streams by then.
        _forget_broken_pipe()
        return 0 if leaving.code in (None, 0, 1) else 1
    except BrokenPipeError:
        raise
    except typer.TyperException as problem:
        return _report(
            UsageProblem(problem.format_message(), hint=_help_hint(words)), words, as_json=as_json, debug=debug
        )
    except (typer.Abort, KeyboardInterrupt):
        return _report(Interrupted("interrupted"), words, as_json=as_json, debug=False)
    except TianjiError as error:
        return _report(error, words, as_json=as_json, debug=debug)
    except Exception as error:  # the edge of the program: whatever came this far is reported, and named
        story = f"unexpected {type(error).__name__}: {error}"
        hint = None if debug else "run again with --debug to see where"
        return _report(TianjiError(story, hint=hint), words, as_json=as_json, debug=debug)


def _report(error: TianjiError, words: list[str], *, as_json: bool, debug: bool) -> int:
    from tianjictl.cli.output import emit_json, print_error
    from tianjictl.errors import UsageProblem

    if debug:
        import traceback

        traceback.print_exc()
    if isinstance(error, UsageProblem) and not error.has_hint():
        error.hint = _help_hint(words)
    print_error(error.lines())
    if as_json:
        command = next((word for word in words if word in COMMANDS), "")
        found = [
            {"code": error.exit_code, "message": finding.message, "hint": finding.hint} for finding in error.findings()
        ]
        emit_json(command, None, errors=found)
    return error.exit_code


def _help_hint(words: list[str]) -> str:
    command = next((word for word in words if word in COMMANDS), None)
    return f"tianjictl {command} --help" if command else "tianjictl --help"


def _have_streams() -> None:
    """Where the caller has closed a standard stream (`>&-`), it leads nowhere: else the next file that is opened would
    take its number, and Python has no object for it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays


def _never_choke_on_a_character() -> None:
    """Print what the terminal's encoding lacks as an escape instead of failing half-way."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _forget_broken_pipe() -> None:
    """Point standard output at nothing, so that the interpreter's last flush is quiet too."""
    try:
        sys.stdout = sys.__stdout__
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.__stdout__.fileno())  # type: ignore[union-attr]
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass  # there is no real standard output to protect


if __name__ == "__main__":
    sys.exit(main())

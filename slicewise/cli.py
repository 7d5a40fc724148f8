"""The `slicewise` command. Each group of commands is a file of its own, imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys

import click

from proto.types.errors import SlicewiseError

BAD_INPUT = 2
FAILED = 1

# command -> (module under slicewise.commands, what it does)
COMMANDS = {
    "up": ("up", "Start the platform on this machine and keep it up."),
    "down": ("down", "Stop it."),
    "status": ("status", "Tell what runs and what does not."),
    "build": ("build", "Register a folder as an image."),
    "check": ("check", "Run a handler before it is deployed and tell what will happen."),
    "deploy": ("deploy", "Deploy functions, from stack.yml or from flags."),
    "list": ("functions", "List functions."),
    "describe": ("functions", "Show one function, and why it is not ready."),
    "remove": ("functions", "Remove a function."),
    "scale": ("functions", "Set a function's number of replicas."),
    "invoke": ("invoke", "Call a function."),
    "explain": ("explain", "Tell why a call went to its slice, and what became of it."),
    "logs": ("logs", "Show what a function printed."),
    "secret": ("secret", "Create, list, update and remove secrets."),
    "policy": ("policy", "Show or set the scheduling policy."),
    "pool": ("pool", "Show or set which functions a slice serves."),
    "profile": ("profile", "Turn measurements of a model into what a partition plan is made from."),
    "partition": ("partition", "Plan the slices that a model's GPUs are divided into."),
    "simulate": ("simulate", "Run a scenario under one or several policies, in virtual time."),
    "trace": ("trace", "Make a scenario of recorded, published or drawn traffic."),
    "models": ("models", "List models and where they are cached."),
    "chain": ("chain", "Plan and simulate chains of servers for a model that no server holds alone."),
    "login": ("login", "Store the login for a gateway."),
}


class _Lazy(click.Group):
    """Imports a command's module only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"slicewise.commands.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="slicewise")
def slicewise() -> None:
    """Serverless GPU functions on slices of shared GPUs."""


def exit_status(error: SlicewiseError) -> int:
    """2 for what the caller can only cure by asking differently, 1 for everything else."""
    return BAD_INPUT if error.code.startswith("bad_") or error.code == "unprocessable" else FAILED


def main() -> None:
    """Run a command; every failure is one line on stderr."""
    try:
        slicewise.main(standalone_mode=False)
    except SlicewiseError as error:
        _end(error.message, exit_status(error))
    except click.ClickException as error:
        # Click spreads usage errors over several lines; the message itself is the one that helps.
        _end(error.format_message(), BAD_INPUT if isinstance(error, click.UsageError) else FAILED)
    except (click.Abort, KeyboardInterrupt):
        _end("Interrupted.", FAILED)
    except BrokenPipeError:
        # The reader of our output has left, as `| head` does; Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)


def _end(message: str, status: int) -> None:
    print(f"slicewise: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()

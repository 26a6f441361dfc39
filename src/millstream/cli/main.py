"""The command `millstream`.

Only the module of the command that is used is imported, so that `millstream --version` answers at once.
"""

from __future__ import annotations

from importlib import import_module

import click

from millstream.version import __version__

__all__ = ["main"]

# Command -> (module, one line for `millstream --help`); the command is the module's attribute `command`, or the one
# named behind a colon.
COMMANDS = {
    "run": ("millstream.cli.run", "Run a program."),
    "sql": ("millstream.cli.sql", "Execute SQL: a shell, or a script."),
    "run-application": (
        "millstream.cli.run:application_command",
        "Run a program as a Spark application of its own, and watch it.",
    ),
    "cluster": ("millstream.cli.cluster", "A Spark session that stays, and jobs side by side in it."),
    "logs": ("millstream.cli.logs", "Show what a cluster's application writes."),
    "info": ("millstream.cli.info", "Show a program's plan without running it."),
    "demo": ("millstream.cli.demo", "Run a packaged example."),
    "explain-watermark": (
        "millstream.cli.explain_watermark",
        "Tell what holds back the watermark of a running job.",
    ),
    "list": ("millstream.cli.jobs:list_command", "List the jobs that run."),
    "cancel": ("millstream.cli.jobs:cancel_command", "Cancel a running job."),
    "stop": ("millstream.cli.jobs:stop_command", "End a running job behind a savepoint."),
    "checkpoints": ("millstream.cli.checkpoints", "Show a job's checkpoints: sizes, durations, failures."),
    "rescale": ("millstream.cli.rescale", "Have a running job go on with another parallelism."),
    "top": ("millstream.cli.top", "Watch the jobs that run: throughput, back pressure, lag, checkpoints."),
    "dashboard": ("millstream.cli.dashboard", "Serve the REST API for the jobs that run."),
    "savepoint": ("millstream.cli.savepoint", "Savepoints: trigger, show, dispose."),
    "state": ("millstream.cli.state", "See into checkpoints and savepoints: ls, show, diff."),
    "query": ("millstream.cli.query", "Ask a running job for what a key has in its state."),
    "replay": ("millstream.cli.replay", "Run an operator for one key from a checkpoint, record by record."),
    "verify": ("millstream.cli.verify", "Prove that a job loses and repeats nothing, whatever fails."),
    "doctor": ("millstream.cli.doctor", "Check this machine: what is found, what to do."),
    "kafka": ("millstream.cli.kafka", "Kafka: transactions that were left open."),
    "connectors": ("millstream.cli.connectors", "List the systems that can be read and written."),
    "config": ("millstream.cli.config", "List every option with its value and where it comes from."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="millstream")
def main() -> None:
    """Apache Flink's streaming model in Python, executed by Apache Spark."""


if __name__ == "__main__":
    main()

"""`syncd completion`: shell completion of commands, options and tables."""

import click

from syncd.cli.option_types import json_option


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion script for a shell's start-up file.

    \b
    Examples:
      eval "$(syncd completion bash)"                                      # in ~/.bashrc
      eval "$(syncd completion zsh)"                                       # in ~/.zshrc
      syncd completion fish > ~/.config/fish/completions/syncd.fish

    Tables are completed from the configuration: syncd.yaml, SYNCD_CONFIG, or a --config before them.
    """
    from click.shell_completion import get_completion_class

    from syncd.cli.output import show_json

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    completer = completion_class(ctx.find_root().command, {}, "syncd", "_SYNCD_COMPLETE")
    # Not `source()`: it would run bash to check its version, and print warnings.
    text = completer.source_template % completer.source_vars()
    if as_json:
        show_json({"shell": shell, "text": text})
    else:
        click.echo(text)

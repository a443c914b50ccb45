"""`syncd completion`: what a shell has to know to complete commands, options and tables."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion of a shell, for its start-up file.

    \b
    Examples:
      eval "$(syncd completion bash)"                                      # in ~/.bashrc
      eval "$(syncd completion zsh)"                                       # in ~/.zshrc
      syncd completion fish > ~/.config/fish/completions/syncd.fish

    Tables are completed from the configuration: syncd.yaml, SYNCD_CONFIG, or the --config that stands before.
    """
    from click.shell_completion import get_completion_class

    from syncd.cli.output import show_json

    made = get_completion_class(shell)
    assert made is not None
    completer = made(ctx.find_root().command, {}, "syncd", "_SYNCD_COMPLETE")
    # Not `source()`: of bash it would ask the version, and print what it thinks of it.
    text = completer.source_template % completer.source_vars()
    if as_json:
        show_json({"shell": shell, "text": text})
    else:
        click.echo(text)

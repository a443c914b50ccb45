"""The command line: one module a command, output and exit codes apart."""

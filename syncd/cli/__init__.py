"""The command line: one module for each command; output and exit codes in modules of their own."""

"""The command ``gpu-vecenv`` and its subcommands."""

"""The command ``gpu-vecenv``: a file a subcommand."""

"""The command ``bench``: speeds beside floors and peers, as JSON that tables and plots are made from."""

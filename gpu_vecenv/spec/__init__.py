"""What an env is: its spec, and what is made from that: memory layout, kernel header, docs."""

"""Pictures and videos of worlds, drawn on the host with Pillow."""

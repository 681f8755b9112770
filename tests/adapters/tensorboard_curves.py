"""Curves that a run wrote for TensorBoard."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves(folder):
    """Values of each scalar by its name, in the order of steps."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [event.value for event in events.Scalars(name)] for name in events.Tags()["scalars"]}

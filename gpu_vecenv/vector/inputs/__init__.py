"""What callers give: options, seeds, resets and actions, checked and converted."""

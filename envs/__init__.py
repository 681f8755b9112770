"""The environments, a folder each: spec, kernel, slow reference, renderer, rules."""

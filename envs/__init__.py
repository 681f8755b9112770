"""The environments, a folder each: spec, kernel, slow reference, renderer, rules."""

from gpu_vecenv._checkout import require_one_copy

require_one_copy(__file__)

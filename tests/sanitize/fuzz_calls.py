"""Random calls of envs whose kernels a sanitizer watches: ``python -m tests.sanitize.fuzz_calls FOLDER SEED CALLS``.

To run with the sanitizer's runtime in ``LD_PRELOAD``, as Python itself was built without it; FOLDER holds the kernels.
"""

import ctypes
import sys
from pathlib import Path

from gpu_vecenv.backend import cpu
from gpu_vecenv.spec.env_spec import EnvSpec
from tests.api.fuzz import fuzz


def watched(spec: EnvSpec) -> ctypes.CDLL:
    """The kernel of this name in the folder."""
    return ctypes.CDLL(str(Path(sys.argv[1]) / f"{spec.name}.so"))


if __name__ == "__main__":
    cpu.load_kernels = watched
    print(sum(fuzz(int(sys.argv[2]), int(sys.argv[3])).values()) > 0)

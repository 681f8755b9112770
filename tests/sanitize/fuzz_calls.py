"""Random calls of envs whose kernels were built with a sanitizer: ``python -m tests.sanitize.fuzz_calls FOLDER SEED CALLS``.

Run it with the sanitizer's runtime in ``LD_PRELOAD``, as Python itself was built without it. FOLDER holds the kernels.
"""

import ctypes
import sys
from pathlib import Path

from gpu_vecenv.backend import cpu
from gpu_vecenv.spec.env_spec import EnvSpec
from tests.api.fuzz import fuzz


def sanitized(spec: EnvSpec) -> ctypes.CDLL:
    """Kernel of this name in the folder."""
    return ctypes.CDLL(str(Path(sys.argv[1]) / f"{spec.name}.so"))


if __name__ == "__main__":
    cpu.load_kernels = sanitized
    print(sum(fuzz(int(sys.argv[2]), int(sys.argv[3])).values()) > 0)

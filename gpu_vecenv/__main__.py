"""``python -m gpu_vecenv`` is ``gpu-vecenv``."""

import sys

from gpu_vecenv.cli.main import main

sys.exit(main())

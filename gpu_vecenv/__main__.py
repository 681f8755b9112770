"""Run ``gpu-vecenv`` as ``python -m gpu_vecenv``."""

import sys

from gpu_vecenv.cli.main import main

sys.exit(main())

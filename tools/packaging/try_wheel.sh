#!/usr/bin/env bash
# Installs a wheel as a user would, and tries it: doctor, a short training run, and every recorded trajectory hash.
#
#   tools/packaging/try_wheel.sh WHEEL
#
# The wheel's own kernels run without a compiler; then zig compiles those of the tests' own envs.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
wheel="$(realpath "$1")"
cd "$(dirname "$0")/../.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
. "$work/venv/bin/activate"
pip install --quiet -c constraints.txt "$wheel[train]"
cp -r tests pyproject.toml "$work"  # without the checkout's package, whose modules would be imported
cd "$work"

export GPU_VECENV_CACHE_DIR="$work/cache"
CXX=/nonexistent/c++ gpu-vecenv envs
CXX=/nonexistent/c++ gpu-vecenv train WarpTag-v0 --out "$work/run" --device cpu --total-steps 800
[ ! -e "$work/cache" ] || { echo "try_wheel.sh: the wheel lacks kernels" >&2; exit 1; }

pip install --quiet pytest pytest-timeout pytest-xdist ziglang
# With -m "not gpu", because pyproject.toml leaves slow cases out.
pytest -n 2 -m "not gpu" tests/parity/test_same_bits.py -k recorded

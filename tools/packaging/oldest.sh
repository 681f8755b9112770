#!/usr/bin/env bash
# Runs tests with the oldest versions that pyproject.toml allows, in a virtual environment of its own:
#
#   tools/packaging/oldest.sh [ARGUMENTS OF PYTEST]
#
# Without arguments it runs the tests of README.md. Its environment variable FOLDER may name a folder that keeps the environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
if [ -z "${FOLDER:-}" ]; then
    FOLDER="$(mktemp -d)"
    trap 'rm -rf "$FOLDER"' EXIT
fi
[ -x "$FOLDER/bin/python" ] || python3 -m venv "$FOLDER"
"$FOLDER/bin/pip" install --quiet uv
export VIRTUAL_ENV="$FOLDER"
# lowest-direct: the oldest versions of what pyproject.toml names, and the newest of what those require in turn.
"$FOLDER/bin/uv" pip compile --quiet --resolution lowest-direct --extra test pyproject.toml --output-file "$FOLDER/oldest.txt"
"$FOLDER/bin/uv" pip install --quiet -r "$FOLDER/oldest.txt"
"$FOLDER/bin/pip" install --quiet --no-deps -c "$FOLDER/oldest.txt" -e .
"$FOLDER/bin/python" -m pytest -n 2 "$@"

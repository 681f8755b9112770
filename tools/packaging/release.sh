#!/usr/bin/env bash
# Builds the files of a release into a folder, dist by default: an sdist, and from it one wheel for each machine.
# It needs python3 with venv, and no compiler: ziglang compiles the kernels.
set -euo pipefail
out="$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)"
cd "$(dirname "$0")/../.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

export PIP_CONSTRAINT="$PWD/constraints.txt"  # for the environments of the builds, too
# A virtual environment without this package, whose modules the build would find in place of those that it builds.
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet build auditwheel

"$work/venv/bin/python" -m build --sdist --outdir "$out" .
sdist="$(ls -t "$out"/gpu_vecenv-*.tar.gz | head -1)"
for machine in x86_64 aarch64; do
    mkdir "$work/$machine"
    tar -xzf "$sdist" -C "$work/$machine" --strip-components 1
    "$work/venv/bin/python" -m build --wheel -C machine="$machine" --outdir "$work/wheels" "$work/$machine"
    wheel="$(ls "$work"/wheels/*_"$machine".whl)"
    # The tag of a wheel is true if its kernels need no library but the C library, in a version as old as the tag says.
    "$work/venv/bin/auditwheel" show "$wheel" | tee "$work/$machine.txt"
    tag="$(basename "$wheel" .whl | grep -o 'manylinux_.*')"
    tr '\n' ' ' < "$work/$machine.txt" | grep -q "consistent with the following platform tag: *\"$tag\"" \
        || { echo "release.sh: auditwheel gives $wheel another tag than $tag" >&2; exit 1; }
    mv "$wheel" "$out"
done

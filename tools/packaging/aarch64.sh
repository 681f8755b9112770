#!/usr/bin/env bash
# Compares a wheel for aarch64 with the recorded trajectory hashes, on a machine with another processor:
#
#   tools/packaging/aarch64.sh WHEEL FOLDER [ARGUMENTS OF PYTEST]
#
# An aarch64 Python of Debian and aarch64 wheels of the requirements are put into FOLDER, which may hold them from an earlier call,
# and qemu-user runs tests/parity/test_same_bits.py there. Needed: a Debian system with apt-get, qemu-user, and python3 with pip.
# Kernels of the tests' own envs are compiled by zig of this machine, those of the package come from the wheel. Without torch.
# The quick tests of tests/parity follow if AARCH64_CXX names a compiler with a C++ library, such as aarch64-linux-gnu-g++ of
# Debian's g++-aarch64-linux-gnu: it compiles teams of threads and builds without packs, for which `zig cc` has no library.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,10p' "$0" >&2; exit 2; }
wheel="$(realpath "$1")" folder="$(mkdir -p "$2" && cd "$2" && pwd)"
shift 2
cd "$(dirname "$0")/../.."

if [ ! -x "$folder/system/usr/bin/python3.11" ]; then
    mkdir -p "$folder"/apt/{lists,archives}/partial "$folder/system"
    touch "$folder/apt/status"  # nothing is installed, so all that Python needs is fetched
    apt() {
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$folder/apt/lists" \
            -o Dir::Cache="$folder/apt" -o Dir::State::Status="$folder/apt/status" "$@"
    }
    apt update
    apt install --yes --no-install-recommends --download-only python3.11 libstdc++6
    for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$folder/system"; done
fi

rm -rf "$folder/site" "$folder/tests"
pip() { python3 -m pip install --quiet --no-deps --target "$folder/site" --python-version 3.11 --only-binary=:all: "$@"; }
pip --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 \
    --platform manylinux2014_aarch64 -c constraints.txt \
    numpy gymnasium cloudpickle farama-notifications platformdirs pyyaml typing-extensions \
    pytest pytest-timeout pytest-xdist execnet iniconfig packaging pluggy pygments
pip --platform manylinux_2_17_aarch64 "$wheel"
python3 -m pip install --quiet --no-deps --target "$folder/zig" -c constraints.txt ziglang
mkdir "$folder/tests" && cp -r tests pyproject.toml "$folder/tests"  # without the checkout's package, whose modules would be imported

cd "$folder/tests"
export QEMU_LD_PREFIX="$folder/system" PYTHONPATH="$folder/site" GPU_VECENV_CACHE_DIR="$folder/cache"
export CXX="$folder/zig/ziglang/zig cc -target aarch64-linux-gnu.2.17"
python=(qemu-aarch64 "$folder/system/usr/bin/python3.11")
"${python[@]}" -c 'import platform, gpu_vecenv
print(platform.machine(), gpu_vecenv.__file__)'
# With -m "not gpu", because pyproject.toml leaves slow cases out.
"${python[@]}" -m pytest -n 0 -m "not gpu" --timeout 3000 tests/parity/test_same_bits.py -k recorded "$@"

[ -n "${AARCH64_CXX:-}" ] || exit 0
export CXX="$AARCH64_CXX"
# Without the tests of local memory, which need NVRTC.
"${python[@]}" -m pytest -n 0 -m "not gpu and not slow" --timeout 3000 tests/parity -k "not recorded and not local_memory" "$@"

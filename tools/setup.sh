# Sourced by run and test: installs what is missing, builds, and fetches models. Everything that it makes is in build/.
set -euo pipefail

packages=(g++ cmake ninja-build ccache llvm-19-dev clang-19 libclang-rt-19-dev clang-format-19 libonnx-dev libprotobuf-dev
  protobuf-compiler libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libtomlplusplus-dev libsqlite3-dev
  libmpfr-dev libgtest-dev libbenchmark-dev python3-venv
  opencl-headers ocl-icd-opencl-dev pocl-opencl-icd)
python_packages=(numpy onnx==1.23.2 onnxruntime==1.32.0)  # they make models and expected outputs, nothing else

# A checkout in another folder finds what this one compiled; precompiled headers need the rest.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

say() { printf '== %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }

# Runs apt-get, twice if the first try fails. Prints a line for each package that it sets up; the rest goes to a log.
apt_get() {
  local log=build/apt.log try sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  for try in 1 2; do
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends "$@" 2>&1 | tee -a $log |
      sed -un 's/^Setting up \([^ ]*\).*/   \1/p; s/^Need to get .*/   &/p' >&2 && return
  done
  die "apt-get $1 failed: $(grep -m1 '^E:' $log || tail -n1 $log) (all of it in $log)"
}

install_packages() {
  command -v dpkg-query >/dev/null || die "this is not Debian; install what corresponds to: ${packages[*]}"
  local have missing
  have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  missing=$(printf '%s\n' "${packages[@]}" | grep -vxF -f <(sed -n 's/^installed //p' <<<"$have") || true)
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || die "these packages are missing, and installing them takes root:" $missing
  mkdir -p build
  : >build/apt.log
  say "installing Debian packages:" $missing
  apt_get update
  apt_get install $missing
}

# Builds targets: all, or those named.
build() {
  if [ ! -f build/build.ninja ]; then
    say "configuring build/"
    mkdir -p build
    cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release >build/configure.log 2>&1 ||
      die "cmake failed: $(grep -m1 -A1 'CMake Error' build/configure.log | tr '\n' ' ')(all of it in build/configure.log)"
  fi
  say "building"
  cmake --build build -j "$(nproc)" --target "${@:-all}" >&2 || die "the build failed, see above"
}

# Makes build/NAME, an environment of Python packages; fails where they cannot be had: python_env NAME PACKAGE... Who comes second waits.
python_env() {
  mkdir -p build
  (
    flock 9
    at=build/$1 log=build/pip_$1.log
    shift
    [ "$(cat "$at/made-of" 2>/dev/null)" = "$*" ] && exit
    say "installing Python packages into $at: $*"
    {
      /usr/bin/python3 -m venv "$at" && "$at/bin/python" -m pip install -q --retries 2 "$@"
    } >"$log" 2>&1 || { say "pip failed: $(tail -n1 "$log") (all of it in $log)"; exit 1; }
    echo "$*" >"$at/made-of"
  ) 9>"build/$1.lock"
}
venv() { python_env venv "${python_packages[@]}"; }

# The vendor's tool that judges kernels for npu:ascend910b.
ascend() { python_env ascend --no-deps ascendnpu-ir==1.2.0; }

# nvcc and nvdisasm in PATH: the machine's, where it has both.
cuda() {
  command -v nvcc >/dev/null && command -v nvdisasm >/dev/null && return
  python_env cuda nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37 nvidia-cuda-runtime==13.5.37 || return
  local found
  found=$(find -L "$PWD/build/cuda/lib" -name nvdisasm -type f | head -n1)
  export PATH="$PATH:$(dirname "$found")"
}

# Fetches or builds models into build/models. Returns 1 where one cannot be had, 2 where there is none of that name.
fetch_models() {
  local name missing=()
  for name; do [ -f "build/models/$name/max_rel" ] || missing+=("$name"); done
  [ ${#missing[@]} = 0 ] && return
  venv || return 1
  build/venv/bin/python tools/models/fetch.py build/models "${missing[@]}"
}

# Makes ONNX's backend tests in build/conformance; fails where the packages for it cannot be had.
make_conformance() {
  venv || return 1
  build/venv/bin/python tools/conformance.py build/conformance
}

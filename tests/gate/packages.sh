#!/bin/sh
# Installs what the gate needs of Debian and the machine lacks: `python` for the gate itself, `compiler` for Rust, `services` for the tests.
# `machine` installs nothing: it names what a build lacks, before the build has taken minutes.
set -eu
RUST=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
# GiB of memory that the largest crate needs, with the programs of the machine beside it.
MEMORY=3
lacks() { ! command -v "$1" > /dev/null 2>&1; }
refuse() {
  echo "$1" >&2
  exit 1
}
check_rust() {
  if lacks cargo || lacks rustc; then refuse "cargo or rustc is missing: install Rust $RUST or newer with rustup"; fi
  found=$(rustc --version | cut -d ' ' -f 2)
  oldest=$(printf '%s\n%s\n' "$RUST" "$found" | sort -V | head -n 1)
  if [ "$oldest" != "$RUST" ]; then refuse "Rust is $found, svc needs $RUST or newer: rustup update"; fi
}
missing=""
case "$1" in
  machine)
    check_rust
    if lacks cc; then refuse "a C compiler is missing (cc): install gcc or clang, with the package build-essential on Debian"; fi
    free=$(awk '/^(MemAvailable|SwapFree):/ { sum += $2 } END { print int(sum / 1048576) }' "${MEMINFO:-/proc/meminfo}")
    if [ "$free" -lt "$MEMORY" ]; then refuse "$free GiB of memory and swap are free, and the build needs $MEMORY: end other programs or add swap"; fi
    host=$(rustc -vV | sed -n 's/^host: //p')
    if ! cargo fetch --locked --quiet --target "$host"; then refuse "crates are missing, and could not be downloaded: the first build needs a network"; fi
    exit 0
    ;;
  python)
    missing="python3 python3-venv"
    ;;
  compiler)
    check_rust
    # rustup has a proxy of each tool also where the component is missing.
    for tool in clippy-driver rustdoc rustfmt; do
      if ! $tool --version > /dev/null 2>&1; then refuse "$tool is missing: rustup component add clippy rustfmt"; fi
    done
    if lacks cc || lacks make; then missing="build-essential"; fi
    ;;
  services)
    if ! python3 -c 'import venv, ensurepip' 2> /dev/null; then missing="python3-venv"; fi
    if lacks curl; then missing="$missing curl"; fi
    if lacks node || lacks npm; then missing="$missing nodejs npm"; fi
    # The package's last step makes the user.
    if ! ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || ! id postgres > /dev/null 2>&1; then missing="$missing postgresql"; fi
    ;;
  *)
    echo "machine, python, compiler or services, not $1" >&2
    exit 2
    ;;
esac
if [ -z "$missing" ]; then
  echo "nothing is missing"
  exit 0
fi
if [ "$(id -u)" != 0 ]; then refuse "missing: run as root: apt-get install $missing"; fi
# A second gate of this machine may install too, and apt waits for its own lock on packages only, not for that on lists.
exec 9> /var/lock/svc-gate-apt
if ! flock --timeout 900 9; then refuse "another gate of this machine has been installing packages for 15 minutes"; fi
patience="-o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -o Acquire::http::Timeout=30"
export DEBIAN_FRONTEND=noninteractive
# An earlier gate may have been ended while it installed, and dpkg does not wait for its lock. Without the error mode, an update that could not
# reach its servers counts as done.
install_missing() {
  # shellcheck disable=SC2086
  dpkg --configure -a &&
    apt-get $patience -o APT::Update::Error-Mode=any update &&
    apt-get $patience install --yes --no-install-recommends $missing
}
attempt=1
until install_missing; do
  if [ "$attempt" = 10 ]; then exit 1; fi
  attempt=$((attempt + 1))
  sleep 15
done

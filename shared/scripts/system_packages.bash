# Sourced by the other scripts: prints which system packages are missing, and as root on Debian installs them.
# shellcheck shell=bash

# require_packages <what for> <package>...: installs, or prints the command that does and returns 1.
require_packages() {
    local purpose=$1
    shift
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing $* ($purpose)" >&2
        if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2; then
            apt-get update >&2
            DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
        fi
    else
        echo "Missing: $purpose. On Debian or Ubuntu install it with:" >&2
        echo "    sudo apt-get install $*" >&2
        return 1
    fi
}

# require_command <command> <what for> <package>...
require_command() {
    local command=$1
    shift
    command -v "$command" >/dev/null 2>&1 || require_packages "$@"
}

# Sourced: installing a lock into an environment.

# install_locked <environment> <lock>: installs exactly the packages of the lock, by hash. uv takes seconds where pip
# takes minutes; if uv fails, for example because only pip is configured for an index, pip installs or reports why.
install_locked() {
    local environment=$1 lock=$2 index
    local options=(--no-deps --require-hashes --only-binary :all:)
    local pip=(.venv/bin/python -m pip --quiet --quiet --disable-pip-version-check)
    if [ ! -x .venv/bin/uv ]; then
        "${pip[@]}" install "${options[@]}" -r <(awk '/^uv==/ { on = 1 } on && !/^(uv==| )/ { exit } on' requirements.lock)
    fi
    index=${PIP_INDEX_URL:-$("${pip[@]}" config get global.index-url 2>/dev/null || true)}
    if [ -n "$index" ]; then export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}; fi
    .venv/bin/uv pip install --quiet --python "$environment/bin/python" "${options[@]}" -r "$lock" 2>/dev/null ||
        "${pip[@]}" --python "$environment/bin/python" install --no-compile "${options[@]}" -r "$lock"
}

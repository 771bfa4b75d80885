# Pieces of the stages of gpu.sh, which sources this; pipefail must be on. A piece is a command whose output is a separate file in
# $results. A piece that passed is skipped, so that a stopped stage resumes; a piece that failed or was killed runs again. The folder
# $results/passed has a digest for each piece that passed: of the words of its command, of the files that these name, such as library
# and program, and of GPU and driver. AGAIN=1: run all of them.

PIECE_READ_BYTES=100000000 # larger files count by their size and time
failed_pieces=()
run_pieces=0

# piece_digest <command...>: piece_gpus, on which results also depend, is queried once, which can take a second.
piece_digest() {
    local word
    {
        echo "$piece_gpus"
        for word in "$@"; do
            if [ ! -f "$word" ]; then
                printf '%s\n' "$word"
            elif [ "$(stat -L -c %s "$word")" -gt "$PIECE_READ_BYTES" ]; then
                stat -L -c '%s %y' "$word"
            else
                sha256sum <"$word"
            fi
        done
    } | sha256sum | cut -d ' ' -f 1
}

# piece <file> <command...>: continues after a failed command; end_pieces reports it.
piece() {
    local file=${results:?}/$1 passed=$results/passed/$1 digest
    shift
    if [ -z "${piece_gpus+asked}" ]; then
        piece_gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true)
    fi
    digest=$(piece_digest "$@")
    if [ -z "${AGAIN:-}" ] && [ -s "$file" ] && [ "$(cat "$passed" 2>/dev/null)" = "$digest" ]; then
        echo "$file: passed before" >&2
        return
    fi
    mkdir -p "$results/passed"
    rm -f "$passed"
    run_pieces=$((run_pieces + 1))
    # An empty output is no result, whatever the command says.
    if "$@" | tee "$file" && [ -s "$file" ]; then
        echo "$digest" >"$passed.new"
        mv "$passed.new" "$passed"
    else
        failed_pieces+=("$file")
    fi
}

# Fails when a piece of the stage did.
end_pieces() {
    if [ ${#failed_pieces[@]} -gt 0 ]; then
        echo "gpu.sh: FAILED: ${failed_pieces[*]}; these run again next time" >&2
        return 1
    fi
    if [ "$run_pieces" = 0 ]; then echo "gpu.sh: all of it passed before with these programs; --again runs it again" >&2; fi
}

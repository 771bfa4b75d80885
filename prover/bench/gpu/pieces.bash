# Pieces of the stages of gpu.sh, which sources this; pipefail must be on. A piece is a command whose output is a separate file in
# $results. A piece that passed is skipped, so that a stopped stage resumes; a piece that failed or was killed runs again. The folder
# $results/passed has a digest for each piece that passed: of the words of its command, of the files that these name, such as library
# and program, and of GPU and driver. AGAIN=1: run all of them.
# RUN_SECONDS: time of this call; pieces that may end later are left, with all after them. DRY_RUN=1: only list pieces and limits.

PIECE_READ_BYTES=100000000 # larger files count by their size and time
piece_limit=300            # seconds, after which a piece is killed; callers assign it
failed_pieces=()
run_pieces=0
left_pieces=0
planned_seconds=0

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
    if [ -n "${DRY_RUN:-}" ]; then
        planned_seconds=$((planned_seconds + piece_limit))
        printf '%4d s at most  %s\n' "$piece_limit" "$*"
        return
    fi
    if [ -z "${piece_gpus+asked}" ]; then
        piece_gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true)
    fi
    digest=$(piece_digest "$@")
    if [ -z "${AGAIN:-}" ] && [ -s "$file" ] && [ "$(cat "$passed" 2>/dev/null)" = "$digest" ]; then
        echo "$file: passed before" >&2
        return
    fi
    if [ "$left_pieces" -gt 0 ] || [ $((SECONDS + piece_limit)) -gt "${RUN_SECONDS:-86400}" ]; then
        left_pieces=$((left_pieces + 1))
        return
    fi
    mkdir -p "$results/passed"
    rm -f "$passed"
    run_pieces=$((run_pieces + 1))
    # An empty output is no result, whatever the command says.
    if timeout --foreground --kill-after 5 "$piece_limit" "$@" | tee "$file" && [ -s "$file" ]; then
        echo "$digest" >"$passed.new"
        mv "$passed.new" "$passed"
    else
        if [ "${PIPESTATUS[0]}" = 124 ]; then echo "gpu.sh: $file: killed after $piece_limit s" >&2; fi
        failed_pieces+=("$file")
    fi
}

# Fails when a piece of the stage did, and with 3 when pieces are left.
end_pieces() {
    if [ -n "${DRY_RUN:-}" ]; then return; fi
    if [ ${#failed_pieces[@]} -gt 0 ]; then
        echo "gpu.sh: FAILED: ${failed_pieces[*]}; these run again next time" >&2
    fi
    if [ "$left_pieces" -gt 0 ]; then
        echo "gpu.sh: $left_pieces pieces are left: run the same command again" >&2
        return 3
    fi
    if [ ${#failed_pieces[@]} -gt 0 ]; then return 1; fi
    if [ "$run_pieces" = 0 ]; then echo "gpu.sh: all of it passed before with these programs; --again runs it again" >&2; fi
}

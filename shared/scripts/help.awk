# Prints the targets of a Makefile by section: `##@ Section` heads, `target: ... ## note` lines.
BEGIN { FS = ":.*## " }
/^##@ / { printf "\n%s\n", substr($0, 5) }
/^[a-z][a-z-]*:.*## / { printf "  %-22s %s\n", $1, $2 }
END { print "" }

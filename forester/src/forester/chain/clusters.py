"""Public clusters by their genesis hash."""

MAINNET = "mainnet-beta"
DEVNET = "devnet"

CLUSTERS = {
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d": MAINNET,
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG": DEVNET,
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY": "testnet",
}
"""Names of the clusters."""

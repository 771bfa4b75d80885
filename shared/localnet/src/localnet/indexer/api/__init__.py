"""The methods of Photon over the indexed state, and the server that offers them (source: indexer.md 1 to 3)."""

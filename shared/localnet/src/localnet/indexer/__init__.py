"""A Photon-compatible indexer: state derived from transactions, served as JSON-RPC (source: indexer.md)."""

"""A Photon-compatible indexer: state derived from transactions, served as JSON-RPC.

Source: forester/docs/reference/indexer.md.
"""

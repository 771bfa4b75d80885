"""The methods of Photon over the indexed state, and the server that offers them.

Source: forester/docs/reference/indexer.md.
"""

"""A local Solana network that runs the real Light Protocol programs, for development and tests."""

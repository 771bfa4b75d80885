"""The floor under both services."""

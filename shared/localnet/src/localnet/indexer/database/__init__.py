"""The derived state in SQLite: accounts, trees, queues."""

"""Pictures: every function takes data and returns a matplotlib figure."""

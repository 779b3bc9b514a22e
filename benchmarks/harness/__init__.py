"""Time suites in turns, keep the figures, and write them into pages."""

"""From store to store: planned, recorded, resumable."""

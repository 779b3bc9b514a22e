"""Score data sets: validated, read from and written to stores, and imported from other formats."""

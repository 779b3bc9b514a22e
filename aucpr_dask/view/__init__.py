"""Output for people: tables, reprs, plots and the report."""

"""Ideas that were tried, kept or not: their code, and what times them in turns with what there is."""

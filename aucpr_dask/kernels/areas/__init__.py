"""From the counts of a ranking to areas, standard errors and influences."""

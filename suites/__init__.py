"""The catalogue: a module for each family of clauses."""

"""Results and what is made of them: schema, journal, matrix."""

"""The language as text: tokens, statements read into blocks and clauses, each with its span."""

"""Keys and functional dependencies of stored data: discovered by `analyze`, or declared and checked."""

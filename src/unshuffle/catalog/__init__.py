"""What is known of data before a query reads it: columns, types, files, tables, keys and dependencies."""

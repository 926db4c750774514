"""Parts of a plan in words: columns, layouts, numbers, and how exchanges choose boundaries and write."""

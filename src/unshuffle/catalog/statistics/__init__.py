"""Statistics of stored data: read from footers, computed by `analyze`, kept, and looked up by scans."""

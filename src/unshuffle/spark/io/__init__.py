"""Reading and writing files and structured streams with Spark."""

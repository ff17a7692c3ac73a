"""Read traces with Spark, which needs Java; nothing heavy is imported before it is called."""

"""What needs Spark, and with it Java: imports nothing heavy before it is called."""

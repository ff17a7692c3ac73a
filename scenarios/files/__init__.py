"""Files in and out: scenarios, profiles, tables; written whole or not at all."""

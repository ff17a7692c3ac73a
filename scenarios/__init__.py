"""What we ask: files in and out, building and executing runs, planning, studies."""

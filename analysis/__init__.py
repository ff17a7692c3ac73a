"""Turn tables of records into profiles, statistics, tables, figures and pages."""

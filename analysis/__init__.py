"""What it means: tables in; profiles, statistics, tables, plots and pages out."""

"""Files of queries, their language and templates, and plans of their replicas."""

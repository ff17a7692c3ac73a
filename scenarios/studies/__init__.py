"""Studies: the main job, and the claims of papers tried again."""

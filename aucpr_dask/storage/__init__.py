"""Storage: URLs, object stores, Icechunk, Zarr stores and their chunks."""

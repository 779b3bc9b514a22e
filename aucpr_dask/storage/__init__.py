"""Storage: URLs, object stores, Zarr stores and their chunks."""

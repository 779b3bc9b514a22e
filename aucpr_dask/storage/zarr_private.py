"""The names that Zarr calls private and this package needs: here alone, so that a release that moves them shows.

Documents are written and checked without a store at hand, which needs the class of an array's metadata and the names of
its chunks; many chunks are asked for at once from code that has no event loop, which needs Zarr's own.
"""

from zarr.core.chunk_key_encodings import ChunkKeyEncoding as ChunkKeyEncoding
from zarr.core.chunk_key_encodings import parse_chunk_key_encoding as parse_chunk_key_encoding
from zarr.core.common import concurrent_map as concurrent_map
from zarr.core.metadata.v3 import ArrayV3Metadata as ArrayV3Metadata
from zarr.core.sync import sync as sync

//! Decides what the API server's URLs mean, and how answers look on the wire.

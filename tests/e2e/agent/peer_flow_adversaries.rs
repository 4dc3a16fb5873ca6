//! Endpoints that would lead a caller astray.

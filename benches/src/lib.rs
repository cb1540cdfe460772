//! Benchmarks of kruntimes live in `benches/`; this library is empty.

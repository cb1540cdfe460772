//! Tests of kruntimes-k8s against the in-process API service.

mod runtime;
